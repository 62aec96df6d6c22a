"""API keys, looked up anew for each call."""

import hashlib

from django.contrib.auth.models import User
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from .models import Client


class KeyAuthentication(BaseAuthentication):
    def authenticate(self, request: Request) -> tuple[User, Client]:
        key = request.META.get("HTTP_AUTHORIZATION", "").removeprefix("Bearer ")
        digest = hashlib.sha256(key.encode()).hexdigest()
        client = Client.objects.select_related("user").filter(key_hash=digest).first()
        if client is None:
            raise AuthenticationFailed
        return client.user, client
