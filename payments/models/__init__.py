"""The tables of the ground floor, one aggregate a file."""

from .channels import Channel, ChannelHealth, ChannelPace
from .currencies import Currency
from .events import Attention, OutboxEvent
from .evidence import ChannelExchange, ErrorCodeRule, InboundNotification, RefusedNotifications
from .ledger import LedgerAccount, LedgerEntry, LedgerLine
from .merchants import ApiClient, Merchant
from .orders import Order
from .payments import IdempotencyRecord, Payment, Receipt

__all__ = [
    "ApiClient",
    "Attention",
    "Channel",
    "ChannelExchange",
    "ChannelHealth",
    "ChannelPace",
    "Currency",
    "ErrorCodeRule",
    "IdempotencyRecord",
    "InboundNotification",
    "LedgerAccount",
    "LedgerEntry",
    "LedgerLine",
    "Merchant",
    "Order",
    "OutboxEvent",
    "Payment",
    "Receipt",
    "RefusedNotifications",
]
