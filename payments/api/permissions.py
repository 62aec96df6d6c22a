"""Scopes: what a client's key may be used for. Denied by default."""

from typing import Any

from rest_framework.exceptions import MethodNotAllowed
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from .authentication import caller


class HasScope(BasePermission):
    """The view names the scope each method needs, in `scopes`."""

    message = "This key may not do that."

    def has_permission(self, request: Request, view: Any) -> bool:
        client = caller(request)
        method = request.method or ""
        needed = view.scopes.get("GET" if method == "HEAD" else method)
        if needed is None:
            raise MethodNotAllowed(method)
        return needed in client.scopes
