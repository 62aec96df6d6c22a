"""Card numbers never reach a row or a log (PAY-10, K21): found by form and check digit, shown by their last four."""

import re
from collections.abc import Iterable

# 13 to 19 digits, as people write them: in one piece or in groups parted by single blanks or hyphens.
_CANDIDATE = re.compile(r"(?<![0-9])[0-9](?:[ -]?[0-9]){12,18}(?![0-9])", re.ASCII)


def _luhn(digits: str) -> bool:
    """Check digit by ISO/IEC 7812-1, annex B."""
    total = 0
    for place, char in enumerate(reversed(digits)):
        value = int(char) * (2 if place % 2 else 1)
        total += value - 9 if value > 9 else value
    return total % 10 == 0


def holds_card_number(text: str) -> bool:
    """Whether the text holds a run of 13–19 digits that passes the card number check."""
    return any(_luhn(re.sub("[ -]", "", match.group())) for match in _CANDIDATE.finditer(text))


def mask_card_numbers(text: str, *, keep: Iterable[str] = ()) -> str:
    """Return the text with each card number cut to its last four digits, as in ************1111.

    :param keep: identifiers, such as a bank's transaction id, whose digits pass the check by chance and must stay
    """

    def masked(match: re.Match[str]) -> str:
        digits = re.sub("[ -]", "", match.group())
        if not _luhn(digits) or any(digits in identifier for identifier in keep):
            return match.group()
        return "*" * (len(digits) - 4) + digits[-4:]

    return _CANDIDATE.sub(masked, text)


def storable(text: str, limit: int, *, keep: Iterable[str] = ()) -> str:
    """Make foreign text fit for a column: no card number, no NUL, at most `limit` characters."""
    return mask_card_numbers(plain(text, limit), keep=keep)


def plain(text: str, limit: int) -> str:
    """Make a foreign identifier fit for a column as it is: no NUL, at most `limit` characters."""
    return text.replace("\x00", "\N{REPLACEMENT CHARACTER}")[:limit]


def masked_token(token: str) -> str:
    """A payment token as people may see it: enough to tell two apart."""
    return token if len(token) <= 8 else f"{token[:4]}…{token[-4:]}"
