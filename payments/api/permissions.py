"""Scopes: what a client's key may be used for. Denied by default."""

from typing import Any

from rest_framework.exceptions import NotAuthenticated
from rest_framework.permissions import BasePermission
from rest_framework.request import Request


class HasScope(BasePermission):
    """The view names the scope each method needs, in `scopes`."""

    message = "This key may not do that."

    def has_permission(self, request: Request, view: Any) -> bool:
        if request.auth is None:
            raise NotAuthenticated("Give an API key: Authorization: Bearer …")
        needed = view.scopes.get(request.method or "", None)
        return needed is not None and needed in request.auth.scopes
