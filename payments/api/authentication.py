"""API keys: `Authorization: Bearer …`; only their hashes are kept."""

import hashlib
import secrets
from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed, NotAuthenticated
from rest_framework.request import Request

from ..models import ApiClient
from ..reference_data import client_with_key


def hash_key(key: str) -> str:
    """The hash a key is kept as. Keys are 256 random bits, so a plain SHA-256 cannot be searched."""
    return hashlib.sha256(key.encode()).hexdigest()


def new_key() -> str:
    """A new random API key."""
    return "chk_" + secrets.token_urlsafe(32)


class ApiKeyAuthentication(BaseAuthentication):
    """Finds the calling client by its key; `request.auth` is the client."""

    def authenticate(self, request: Request) -> tuple[Any, ApiClient] | None:
        header = request.META.get("HTTP_AUTHORIZATION", "")
        scheme, _, key = header.partition(" ")
        if scheme.lower() != "bearer" or not key:
            return None
        client = client_with_key(hash_key(key.strip()))
        if client is None:
            raise AuthenticationFailed("The API key is not known.")
        return None, client

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="countinghouse"'


def caller(request: Request) -> ApiClient:
    """The client whose key came with the request."""
    if not isinstance(request.auth, ApiClient):
        raise NotAuthenticated("Give an API key: Authorization: Bearer …")
    return request.auth


class ApiKeyScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """How the OpenAPI document names the keys."""

    target_class = "payments.api.authentication.ApiKeyAuthentication"
    name = "apiKey"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer", "bearerFormat": "API key"}
