"""What a refusal means, by the mapping table: code and text are judged together, the most specific rule wins (SPL-4)."""

import unicodedata
from dataclasses import dataclass

from .models import ErrorCodeRule

Class = ErrorCodeRule.Classification


@dataclass(frozen=True, slots=True)
class Verdict:
    """The class of a refusal and the rule that says so; without a rule it is UNKNOWN and unmapped."""

    classification: str
    rule: ErrorCodeRule | None

    @property
    def mapped(self) -> bool:
        return self.rule is not None


def _squeezed(text: str) -> str:
    return "".join(unicodedata.normalize("NFKC", text).split()).casefold()


def classify(*, adapter: str, operation: str, code: str, message: str, http_status: int | None = None) -> Verdict:
    """Return the class of a refusal. One query.

    Order of preference: the operation's own rule before `any`, a longer text match before a shorter one before none,
    the code before the generic `HTTP_<status>`. Text is compared without white space, in Unicode form NFKC.
    """
    codes = [code] if code else []
    if http_status is not None:
        codes.append(f"HTTP_{http_status}")
    text = _squeezed(message)
    matching = [
        rule
        for rule in ErrorCodeRule.objects.filter(adapter=adapter, operation__in=[operation, "any"], code__in=codes)
        if _squeezed(rule.message_contains) in text
    ]
    if not matching:
        return Verdict(Class.UNKNOWN, None)
    best = max(
        matching,
        key=lambda rule: (rule.operation != "any", rule.code == code, len(rule.message_contains), -rule.pk),
    )
    return Verdict(best.classification, best)
