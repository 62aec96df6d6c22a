"""What every channel adapter can do and how it answers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from ..evidence import Outcome
from ..money import Money


@dataclass(frozen=True, slots=True)
class ChannelRequest:
    """A request ready to leave, so that it can be stored before it does (PAY-14).

    :ivar tokens: what stands in the body and must be masked where it is stored
    """

    operation: str
    reference: str
    method: str
    path: str
    body: bytes
    tokens: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ChannelReply:
    """What came back, judged by the channel's own rules.

    :ivar code: most specific code of the reply, or READ_TIMEOUT, CONNECT_FAILED, UNREADABLE_REPLY, HTTP_<status>
    :ivar raw: the body as received, cut to a bounded length, unmasked; it is masked where it is stored
    :ivar left: whether bytes may have reached the channel
    :ivar fields: the reply's own texts by name, which the mapping table may look at
    """

    outcome: Outcome
    code: str = ""
    message: str = ""
    channel_txn_id: str = ""
    amount: Money | None = None
    completed_at: datetime | None = None
    http_status: int | None = None
    raw: str = ""
    latency_ms: int = 0
    left: bool = True
    fields: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ReportedPayment:
    """A verified notification in our words.

    :ivar duplicate_key: equal for repeats of the same news (NTF-3)
    :ivar content: the fields that matter, for telling an equal key with other content
    """

    reference: str
    outcome: Outcome
    duplicate_key: str
    content: Mapping[str, object]
    channel_event_id: str = ""
    code: str = ""
    message: str = ""
    channel_txn_id: str = ""
    amount: Money | None = None
    occurred_at: datetime | None = None
    operation: str = "pay"


class ChannelAdapter(Protocol):
    """One outside party. `pay_request` and `query_request` build, `call` sends: between the two the caller commits.

    What is missing for signing is said while building: a request that stands committed can be sent.
    """

    def pay_request(
        self,
        *,
        reference: str,
        amount: Money,
        token: str,
        purpose: str,
        expires_at: datetime,
        notify_url: str,
        at: datetime,
    ) -> ChannelRequest: ...

    def query_request(self, *, reference: str) -> ChannelRequest: ...

    def cancel_request(self, *, reference: str, cancel_reference: str) -> ChannelRequest: ...

    def call(self, request: ChannelRequest, *, at: datetime) -> ChannelReply: ...

    def read_notification(self, *, body: bytes, headers: Mapping[str, str], at: datetime) -> ReportedPayment: ...

    def notification_answer(self) -> tuple[str, bytes]: ...
