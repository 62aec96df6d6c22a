"""Logging in and out, and the few things kept about how a person likes the console."""

from django.contrib import messages
from django.contrib.auth.views import LoginView, LogoutView
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.cache import add_never_cache_headers, patch_cache_control
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _
from django.utils.translation import override

from .. import wording
from ..access import ConsoleRequest, console_page
from ..forms import DisplayForm, PreferencesForm
from ..people import operator_of, save_preferences
from ..roles import MATRIX, Role

LANGUAGE_COOKIE_SECONDS = 365 * 24 * 3600


class LogIn(LoginView):
    """Log in; the person's language follows them to this browser."""

    template_name = "ops_console/login.html"
    redirect_authenticated_user = True

    def form_valid(self, form: object) -> HttpResponse:  # type: ignore[override]
        response = super().form_valid(form)  # type: ignore[arg-type]
        language = operator_of(self.request.user).preferences.language  # type: ignore[arg-type]
        if language:
            _remember_language(response, language)
        return response

    def render_to_response(self, context: dict[str, object], **kwargs: object) -> HttpResponse:
        response = super().render_to_response(context, **kwargs)
        add_never_cache_headers(response)
        patch_cache_control(response, no_store=True)
        return response


class LogOut(LogoutView):
    """Log out, by POST only."""

    http_method_names = ["post", "options"]


@console_page("POST")
def display(request: ConsoleRequest) -> HttpResponse:
    """The switches in the top bar: theme, density, language."""
    form = DisplayForm(request.POST)
    back = request.POST.get("next", "")
    if not url_has_allowed_host_and_scheme(back, allowed_hosts={request.get_host()}, require_https=request.is_secure()):
        back = reverse("ops_console:find")
    response = redirect(back)
    if form.is_valid() and (chosen := form.chosen()):
        save_preferences(user=request.operator.user, **chosen)
        if "language" in chosen:
            _remember_language(response, chosen["language"])
    return response


@console_page("GET", "POST")
def me(request: ConsoleRequest) -> HttpResponse:
    """Preferences, and what this person may do."""
    kept = request.operator.preferences
    initial = {name: getattr(kept, name) for name in PreferencesForm.base_fields}
    form = PreferencesForm(request.POST if request.method == "POST" else None, initial=initial)
    if request.method == "POST" and form.is_valid():
        save_preferences(user=request.operator.user, **form.cleaned_data)
        language = form.cleaned_data["language"]
        response = redirect("ops_console:me")
        if language:
            _remember_language(response, language)
        else:
            response.delete_cookie("language")
        with override(language or request.LANGUAGE_CODE):  # type: ignore[attr-defined]
            messages.success(request, _("Preferences saved."))
        return response
    matrix = [
        {"word": wording.CAPABILITIES[capability], "cells": [role in holders for role in Role]}
        for capability, holders in MATRIX.items()
    ]
    roles = [{"name": role, "word": wording.ROLES[role]} for role in Role]
    status = 422 if form.errors else 200
    return render(request, "ops_console/me.html", {"form": form, "matrix": matrix, "roles": roles}, status=status)


def _remember_language(response: HttpResponse, language: str) -> None:
    response.set_cookie("language", language, max_age=LANGUAGE_COOKIE_SECONDS, samesite="Lax", httponly=True)
