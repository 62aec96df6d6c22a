"""Who is at the console: one person with role and preferences, read once a request."""

from dataclasses import dataclass
from functools import cached_property
from zoneinfo import ZoneInfo

from django.conf import settings
from django.contrib.auth.models import User
from django.contrib.postgres.aggregates import ArrayAgg
from django.db.models import Count, IntegerField, Q, Subquery, Value
from django.db.models.functions import Coalesce

from payments.models import Attention

from .models import Preferences
from .roles import Capability, Role, allows, role_among

MOST_COUNTED = 1000
ZONES = (
    "Asia/Shanghai",
    "Asia/Hong_Kong",
    "Asia/Taipei",
    "Asia/Singapore",
    "Asia/Tokyo",
    "Asia/Seoul",
    "Asia/Kolkata",
    "Asia/Dubai",
    "Europe/London",
    "Europe/Berlin",
    "Europe/Moscow",
    "America/New_York",
    "America/Chicago",
    "America/Los_Angeles",
    "America/Sao_Paulo",
    "Australia/Sydney",
    "Pacific/Auckland",
    "UTC",
)


@dataclass(frozen=True)
class Operator:
    """A logged-in person. Without a role nothing is allowed."""

    user: User
    role: Role | None
    preferences: Preferences
    open_attentions: int

    def may(self, capability: Capability) -> bool:
        return allows(role=self.role, capability=capability)

    @cached_property
    def zone(self) -> ZoneInfo:
        """The one zone of everything this person sees, filters and exports."""
        return ZoneInfo(self.preferences.time_zone or settings.DISPLAY_TIME_ZONE)

    @property
    def actor(self) -> str:
        """How records name this person."""
        return f"user:{self.user.get_username()}"[:120]


_SHOWN = ("theme", "density", "language", "time_zone", "shortcuts", "refresh")


def operator_of(user: User) -> Operator:
    """Read a person's role, preferences and the count beside the navigation. One query."""
    open_ones = Attention.objects.filter(settled_at__isnull=True).order_by("-opened_at").values("pk")[:MOST_COUNTED]
    counted = (
        Attention.objects.filter(pk__in=open_ones)
        .order_by()
        .annotate(all=Value(1))
        .values("all")
        .annotate(count=Count("pk"))
        .values("count")
    )
    row = (
        User.objects.filter(pk=user.pk)
        .annotate(
            roles=ArrayAgg("groups__name", filter=Q(groups__name__in=list(Role)), default=Value([])),
            attentions=Coalesce(Subquery(counted, output_field=IntegerField()), 0),
        )
        .values("roles", "attentions", *(f"console_preferences__{name}" for name in _SHOWN))
        .get()
    )
    kept = {name: row[f"console_preferences__{name}"] for name in _SHOWN}
    known = {name: value for name, value in kept.items() if value is not None}
    return Operator(user, role_among(row["roles"]), Preferences(user_id=user.pk, **known), row["attentions"])


def save_preferences(*, user: User, **chosen: object) -> None:
    """Keep what a person chose; what is not named stays."""
    Preferences.objects.update_or_create(user=user, defaults=chosen)
