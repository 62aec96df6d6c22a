"""Bodies in and out: strict JSON, decimals exact, one content type."""

from collections.abc import Mapping
from typing import Any

import msgspec
from rest_framework.exceptions import APIException, ParseError
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request

from ..strict_json import NotStrictJSON, loads

MAX_BODY = 64 * 1024
# Decimals are written as JSON numbers with the very digits they have.
_encoder = msgspec.json.Encoder(decimal_format="number")


class BodyTooLarge(APIException):
    """The body is above the limit."""

    status_code = 413
    default_detail = f"The body is longer than {MAX_BODY} bytes."
    default_code = "body_too_large"


class StrictJSONParser(BaseParser):
    """JSON of the strict kind, at most 64 KiB (K07)."""

    media_type = "application/json"

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Mapping[str, Any] | None = None) -> Any:
        body = stream.read(MAX_BODY + 1)
        if len(body) > MAX_BODY:
            raise BodyTooLarge
        try:
            return loads(body)
        except NotStrictJSON as error:
            raise ParseError(str(error)) from None


def encode(data: Any) -> bytes:
    """Write an answer as JSON in UTF-8."""
    return _encoder.encode(data)


class ApiRenderer(BaseRenderer):
    """JSON out, in UTF-8."""

    media_type = "application/json"
    format = "json"
    charset = None

    def render(
        self, data: Any, accepted_media_type: str | None = None, renderer_context: Mapping[str, Any] | None = None
    ) -> bytes:
        return b"" if data is None else encode(data)


class AlwaysJSON(BaseContentNegotiation):
    """One parser and one renderer: nothing to negotiate on the hot path."""

    def select_parser(self, request: Request, parsers: Any) -> Any:
        kind = (request.content_type or "").split(";")[0].strip().lower()
        return next((parser for parser in parsers if kind == parser.media_type), None)

    def select_renderer(self, request: Request, renderers: Any, format_suffix: str | None = None) -> Any:
        return renderers[0], renderers[0].media_type
