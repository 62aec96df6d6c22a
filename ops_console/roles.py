"""Roles and what each may do: the permission matrix, denied by default (OPS-8)."""

from collections.abc import Iterable
from enum import StrEnum

from django.contrib.auth.models import Group, User


class Role(StrEnum):
    """The four kinds of people who work here."""

    SUPPORT = "support"
    OPS = "ops"
    ADMIN = "admin"
    AUDITOR = "auditor"


class Capability(StrEnum):
    """What a role may be allowed. One row of the permission matrix each."""

    LOOK_UP = "look_up"
    UNMASK = "unmask"
    RAW_MESSAGES = "raw_messages"
    ASK_BANK = "ask_bank"


MATRIX: dict[Capability, frozenset[Role]] = {
    Capability.LOOK_UP: frozenset(Role),
    Capability.UNMASK: frozenset({Role.OPS, Role.ADMIN, Role.AUDITOR}),
    Capability.RAW_MESSAGES: frozenset({Role.OPS, Role.ADMIN, Role.AUDITOR}),
    Capability.ASK_BANK: frozenset({Role.SUPPORT, Role.OPS, Role.ADMIN}),
}


def role_among(groups: Iterable[str]) -> Role | None:
    """The one role these groups stand for. None, or two at once, is no role: what a person may do must be plain."""
    roles = [Role(name) for name in groups if name in set(Role)]
    return roles[0] if len(roles) == 1 else None


def allows(*, role: Role | None, capability: Capability) -> bool:
    """Whether the matrix gives this capability to this role."""
    return role is not None and role in MATRIX.get(capability, frozenset())


def grant_role(*, user: User, role: str) -> None:
    """Give a user exactly this role. Roles are groups, so that they can be managed where users are."""
    group, _ = Group.objects.get_or_create(name=Role(role).value)
    user.groups.set([group])
