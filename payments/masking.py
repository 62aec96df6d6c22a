"""Card numbers never reach a row or a log (PAY-10, K21): found by form and check digit, shown by their last four."""

import re
import unicodedata
from collections.abc import Iterable, Iterator

# Digits as people write them: in one piece, or in groups parted by one or two blanks, dots,
# dashes, commas, slashes, or marks that cannot be seen.
_RUN = re.compile("[0-9](?:[ \u00a0\u2009\u200b-\u200f\u00ad.,/_\u2013\u2014-]{0,2}[0-9])*", re.ASCII)
_GROUP = re.compile(r"[0-9]+", re.ASCII)
SHORTEST, LONGEST = 13, 19


def _luhn(digits: str) -> bool:
    """Check digit by ISO/IEC 7812-1, annex B."""
    total = 0
    for place, char in enumerate(reversed(digits)):
        value = int(char) * (2 if place % 2 else 1)
        total += value - 9 if value > 9 else value
    return total % 10 == 0


def _with_plain_digits(text: str) -> str:
    """The text with every decimal digit, such as a full-width one, as ASCII; places stay the same."""
    if text.isascii():
        return text
    return "".join(str(unicodedata.digit(char)) if char.isdecimal() else char for char in text)


def _card_numbers(text: str) -> Iterator[tuple[int, int, str]]:
    """Start, end and digits of each number of whole groups that is 13–19 digits long and passes the check."""
    for run in _RUN.finditer(_with_plain_digits(text)):
        groups = [(run.start() + g.start(), run.start() + g.end(), g.group()) for g in _GROUP.finditer(run.group())]
        first = 0
        while first < len(groups):
            hit = _longest_hit(groups, first)
            if hit is not None:
                yield groups[first][0], groups[hit][1], "".join(group[2] for group in groups[first : hit + 1])
            first = first + 1 if hit is None else hit + 1


def _longest_hit(groups: list[tuple[int, int, str]], first: int) -> int | None:
    """The last group of the longest card number that begins with this group."""
    digits, hit = "", None
    for last in range(first, len(groups)):
        digits += groups[last][2]
        if len(digits) > LONGEST:
            break
        if len(digits) >= SHORTEST and _luhn(digits):
            hit = last
    return hit


def holds_card_number(text: str) -> bool:
    """Whether the text holds a number of 13–19 digits that passes the card number check."""
    return next(_card_numbers(text), None) is not None


def mask_card_numbers(text: str, *, keep: Iterable[str] = ()) -> str:
    """Return the text with each card number cut to its last four digits, as in ************1111.

    :param keep: identifiers, such as a bank's transaction id, whose digits pass the check by chance and must stay
    """
    masked, end = [], 0
    for start, stop, digits in _card_numbers(text):
        if any(digits in identifier for identifier in keep):
            continue
        masked += [text[end:start], "*" * (len(digits) - 4), digits[-4:]]
        end = stop
    return "".join([*masked, text[end:]])


def storable(text: str, limit: int, *, keep: Iterable[str] = ()) -> str:
    """Make foreign text fit for a column: no card number, no NUL, at most `limit` characters."""
    return mask_card_numbers(plain(text, limit), keep=keep)


def plain(text: str, limit: int) -> str:
    """Make a foreign identifier fit for a column as it is: no NUL, at most `limit` characters."""
    return text.replace("\x00", "\N{REPLACEMENT CHARACTER}")[:limit]


def masked_token(token: str) -> str:
    """A payment token as people may see it: enough to tell two apart."""
    return token if len(token) <= 8 else f"{token[:4]}…{token[-4:]}"
