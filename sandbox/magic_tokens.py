"""Payment tokens with a built-in fault, so that a newcomer needs no control call."""

from sandbox.effects import Effects
from sandbox.fault_scripts import read_effects
from sandbox.faults import MagicToken


def _token(meaning: str, first_requests: int | None, **effects: object) -> MagicToken:
    return MagicToken(read_effects(effects) if effects else Effects(), first_requests, meaning)


_DROPPED = {"drop": "after"}

MAGIC_TOKENS = {
    "tok_success": _token("succeeds, like every token that is not in this list", None),
    "tok_decline": _token("declined, E1001", None, decline={"code": "E1001", "text": "余额不足"}),
    "tok_expired_card": _token("declined, E1002", None, decline={"code": "E1002", "text": "卡过期或冻结"}),
    "tok_slow": _token("booked at once, the reply comes after 8 s", 1, slow_s=8),
    "tok_drop": _token("booked, the connection is dropped", 1, **_DROPPED),
    "tok_lost": _token("the connection is dropped before anything is booked", 1, drop="before"),
    "tok_502": _token("booked, the reply is a 502 in HTML", 1, gateway_502="after"),
    "tok_processing": _token("PROCESSING, succeeds after 20 s", 1, processing_s=20),
    "tok_processing_decline": _token(
        "PROCESSING, declined after 20 s", 1, processing_s=20, then_decline={"code": "E1003", "text": "发卡行拒绝"}
    ),
    "tok_invisible": _token(
        "booked and dropped; queries say NOT_FOUND for 20 s", 1, **_DROPPED, invisible_s=20, notify={"delay_s": 20}
    ),
    "tok_busy": _token(
        "refused as busy twice, then succeeds", 2, refuse={"http": 400, "code": "E0001", "text": "系统繁忙"}
    ),
    "tok_overcharge": _token("1.00 more is charged than was asked", 1, charge_more="1.00"),
    "tok_short": _token("1.00 less is charged than was asked", 1, charge_less="1.00"),
    "tok_wrong_signature": _token(
        "booked; signatures of the reply and of the notification do not verify",
        1,
        bad_reply_signature=True,
        notify={"wrong_signature": True},
    ),
    "tok_wrong_amount": _token(
        "booked and dropped; the notification names 0.01", 1, **_DROPPED, notify={"wrong_amount": "0.01"}
    ),
    "tok_duplicate_notifications": _token("succeeds; its notification comes 7 times", 1, notify={"copies": 7}),
    "tok_out_of_order": _token(
        "succeeds; a PROCESSING notification comes after the final one", 1, notify={"out_of_order": True}
    ),
    "tok_silent": _token("booked and dropped, and no notification ever", 1, **_DROPPED, notify={"send": False}),
    "tok_garbage": _token("booked, the reply is JSON cut in half", 1, garbage_200=True),
    "tok_unmapped": _token(
        "refused with a code no table knows", None, refuse={"http": 400, "code": "E7777", "text": "未知错误"}
    ),
    "tok_two_faced": _token(
        "refused with the code of busy, but the account is closed",
        None,
        refuse={"http": 400, "code": "E0001", "text": "账户已销户"},
    ),
}
