"""Figures and ratios of a measurement: a table for people, and a last line of JSON for programs."""

import json
from dataclasses import asdict, dataclass, field
from statistics import median


@dataclass(frozen=True)
class Figure:
    """A median of rounds with its range. A ratio may have a goal, reached at or above it (`at_most`: at or below)."""

    median: float
    low: float
    high: float
    unit: str = ""
    goal: float | None = None
    stretch: float | None = None
    at_most: bool = False

    @property
    def mark(self) -> str:
        """Whether the median reaches its goal."""
        if self.goal is None:
            return ""
        reached = self.median <= self.goal if self.at_most else self.median >= self.goal
        return "reached" if reached else "missed"


def of(values: list[float], unit: str = "", **goal: float | bool | None) -> Figure:
    """The figure of one value per round."""
    shown = [round(value, 4) for value in (median(values), min(values), max(values))]
    return Figure(*shown, unit=unit, **goal)  # type: ignore[arg-type]


def ratios(over: list[float], under: list[float]) -> list[float]:
    """Round by round, so that what slows the machine down for a while slows both."""
    return [first / second for first, second in zip(over, under, strict=True)]


@dataclass
class Report:
    """What a measurement found."""

    name: str
    figures: dict[str, Figure] = field(default_factory=dict)
    ratios: dict[str, Figure] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def show(self) -> None:
        """Print the table, then one line of JSON."""
        width = max(len(name) for name in (*self.figures, *self.ratios)) + 2
        for title, group in (("figures", self.figures), ("ratios and goals", self.ratios)):
            print(f"\n{title:<{width}}{'median':>10}  {'range':<21}{'goal':<9}{'stretch':<9}")
            for name, one in group.items():
                spread = f"{_text(one.low)} – {_text(one.high)}"
                sign = "≤ " if one.at_most else "≥ "
                goals = [sign + _text(value) if value is not None else "" for value in (one.goal, one.stretch)]
                line = f"{name:<{width}}{_text(one.median):>10}  {spread:<21}{goals[0]:<9}{goals[1]:<9}"
                print(f"{line}{one.unit or one.mark}".rstrip())
        print()
        for note in self.notes:
            print(note)
        groups = {"figures": self.figures, "ratios": self.ratios}
        plain = {title: {name: asdict(one) for name, one in group.items()} for title, group in groups.items()}
        print(json.dumps({"name": self.name, **plain}), flush=True)


def _text(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}"
