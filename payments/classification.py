"""What a refusal means, by the mapping table: code and text are judged together, the most specific rule wins (SPL-4)."""

import unicodedata
from collections.abc import Mapping
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


def _matches(pattern: str, text: str, fields: Mapping[str, str]) -> bool:
    if pattern.startswith("field:"):
        name, _, value = pattern.removeprefix("field:").partition("=")
        return fields.get(name, "") == value
    return _squeezed(pattern) in text


def classify(
    *,
    adapter: str,
    operation: str,
    code: str,
    message: str,
    http_status: int | None = None,
    fields: Mapping[str, str] | None = None,
) -> Verdict:
    """Return the class of a refusal. One query.

    Order of preference: the operation's own rule before `any`, a longer text match before a shorter one before none, the
    code before the generic `HTTP_<status>`. Text is compared without white space, in Unicode form NFKC; a text of the form
    `field:name=value` looks at a field of the reply instead, an empty value meaning that the field is absent or empty.
    """
    codes = [code] if code else []
    if http_status is not None:
        codes.append(f"HTTP_{http_status}")
    text = _squeezed(message)
    matching = [
        rule
        for rule in ErrorCodeRule.objects.filter(adapter=adapter, operation__in=[operation, "any"], code__in=codes)
        if _matches(rule.message_contains, text, fields or {})
    ]
    if not matching:
        return Verdict(Class.UNKNOWN, None)
    best = max(
        matching,
        key=lambda rule: (rule.operation != "any", len(rule.message_contains), rule.code == code, -rule.pk),
    )
    return Verdict(best.classification, best)
