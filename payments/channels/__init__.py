"""Channels: one module per outside party, behind one protocol."""

from functools import cache

from ..errors import ChannelNotUsable
from ..models import Channel
from .bank import BankChannel
from .protocol import ChannelAdapter, ChannelReply, ChannelRequest, ReportedPayment

ADAPTERS: dict[str, type[BankChannel]] = {"bank": BankChannel}

__all__ = ["ADAPTERS", "ChannelAdapter", "ChannelReply", "ChannelRequest", "ReportedPayment", "adapter_for"]


@cache
def _adapter(kind: str, settings: tuple[tuple[str, object], ...], limits: tuple[float, float, int]) -> ChannelAdapter:
    return ADAPTERS[kind](settings=dict(settings), connect_s=limits[0], read_s=limits[1], slots=limits[2])


def adapter_for(channel: Channel) -> ChannelAdapter:
    """Return the adapter that speaks to this channel; its connections are pooled per process and settings.

    :raises ChannelNotUsable: no adapter of that name
    """
    if channel.adapter not in ADAPTERS:
        raise ChannelNotUsable(channel=channel.code, reason=f"names an unknown adapter {channel.adapter!r}")
    settings = tuple(sorted((name, _frozen(value)) for name, value in channel.settings.items()))
    return _adapter(channel.adapter, settings, (channel.connect_timeout_s, channel.read_timeout_s, channel.slots))


def _frozen(value: object) -> object:
    return (
        tuple(sorted(value.items())) if isinstance(value, dict) else tuple(value) if isinstance(value, list) else value
    )
