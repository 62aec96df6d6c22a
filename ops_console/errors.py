"""What the console refuses on purpose. The words for people are in `wording.REFUSALS`, by code."""

from .roles import Capability


class ConsoleRefusal(Exception):
    """Base of the console's refusals."""

    code = "refused"
    status = 409


class NotPermitted(ConsoleRefusal):
    """The role lacks the capability; the attempt is recorded."""

    code = "not_permitted"
    status = 403

    def __init__(self, *, capability: Capability) -> None:
        self.capability = capability
        super().__init__(f"The capability {capability} is missing.")


class ReasonMissing(ConsoleRefusal):
    """The action needs a reason."""

    code = "reason_missing"
    status = 422


class TooOften(ConsoleRefusal):
    """This person did this too many times within a minute."""

    code = "too_often"
    status = 429


class PageStale(ConsoleRefusal):
    """The page showed an earlier revision of the row than the database holds."""

    code = "page_stale"

    def __init__(self, *, shown: int) -> None:
        self.shown = shown
        super().__init__(f"The page showed revision {shown}.")


class TokenMisused(ConsoleRefusal):
    """The form's one-time token belongs to another operation."""

    code = "token_misused"


class TooManyRows(ConsoleRefusal):
    """More rows than one export holds."""

    code = "too_many_rows"
    status = 422
