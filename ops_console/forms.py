"""What people type in: shape only."""

from django import forms
from django.conf import settings
from django.utils.translation import gettext_lazy as _

from payments.masking import holds_card_number

from .models import Preferences
from .people import ZONES


class AskForm(forms.Form):
    """The question to the bank: the form's one-time token and the revision its page showed."""

    token = forms.UUIDField()
    revision = forms.IntegerField(min_value=0, max_value=2**31 - 1)


class ReasonForm(forms.Form):
    """Why personal data is looked at."""

    token = forms.UUIDField()
    reason = forms.CharField(max_length=500, required=False)

    def clean_reason(self) -> str:
        reason: str = self.cleaned_data["reason"]
        if holds_card_number(reason):
            raise forms.ValidationError(_("A card number does not belong here. It was not kept."))
        return reason


class CopiedForm(forms.Form):
    """Which words were copied."""

    language = forms.ChoiceField(choices=[("zh", "中文"), ("en", "English")])


class DisplayForm(forms.Form):
    """One of the quick switches in the top bar, and where to go back to."""

    theme = forms.ChoiceField(choices=Preferences.Theme, required=False)
    density = forms.ChoiceField(choices=Preferences.Density, required=False)
    language = forms.ChoiceField(choices=settings.LANGUAGES, required=False)

    def chosen(self) -> dict[str, str]:
        """What was chosen; the rest stays as it is."""
        return {name: value for name, value in self.cleaned_data.items() if value}


class PreferencesForm(forms.Form):
    """How a person likes the console."""

    theme = forms.ChoiceField(
        choices=[("system", _("As the system")), ("light", _("Light")), ("dark", _("Dark"))],
        widget=forms.RadioSelect,
        label=_("Theme"),
    )
    density = forms.ChoiceField(
        choices=[("compact", _("Compact")), ("comfortable", _("Comfortable"))],
        widget=forms.RadioSelect,
        label=_("Density"),
    )
    language = forms.ChoiceField(
        choices=[("", _("As the browser asks")), ("zh-hans", "中文"), ("en", "English")],
        required=False,
        label=_("Language"),
    )
    time_zone = forms.ChoiceField(
        choices=[("", _("The site's zone")), *((zone, zone) for zone in ZONES)], required=False, label=_("Time zone")
    )
    shortcuts = forms.BooleanField(required=False, label=_("Keyboard shortcuts"))
    refresh = forms.BooleanField(required=False, label=_("Pages refresh themselves"))
