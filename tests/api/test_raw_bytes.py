"""What only a real server shows: bytes as they come over a socket (K07)."""

import json
import socket

import pytest

from payments.models import IdempotencyRecord, Payment, RefusedNotifications
from tests import factories
from tests.api.conftest import a_body
from tests.stack import running

BODY = json.dumps(a_body(idempotencyKey=None)).encode()


def exchange(port: int, *parts: bytes) -> tuple[int, bytes]:
    """Send bytes, read everything; returns status and body. 0 when the server only hangs up."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as peer:
        answer = b""
        try:
            for part in parts:
                peer.sendall(part)
            while chunk := peer.recv(65536):
                answer += chunk
        except OSError:  # the server has said enough and reads no further
            pass
    head, _, body = answer.partition(b"\r\n\r\n")
    return (int(head.split()[1]), body) if head else (0, b"")


def request(line: bytes, *headers: bytes, body: bytes = b"") -> bytes:
    return b"\r\n".join([line, b"Host: 127.0.0.1", b"Connection: close", *headers, b"", b""]) + body


@pytest.mark.django_db(transaction=True)
def test_no_bytes_bring_a_server_error_and_none_get_through():
    """K07, PAY-9: addresses, headers and bodies that a client library would not let pass."""
    with running() as (_, stack):
        client = factories.an_api_client(merchant=factories.a_merchant(channel=factories.a_channel()))
        stack.web()
        key = b"Authorization: Bearer " + client.key.encode()
        kind, length = b"Content-Type: application/json", b"Content-Length: %d" % len(BODY)
        chunks = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)

        def posted(*headers: bytes, body: bytes = BODY) -> tuple[int, bytes]:
            return exchange(stack.port, request(b"POST /payments HTTP/1.1", key, kind, *headers, body=body))

        refused = {
            "NUL in address": exchange(stack.port, request(b"GET /payments/\x00 HTTP/1.1", key)),
            "%00 in address": exchange(stack.port, request(b"GET /payments/%00 HTTP/1.1", key)),
            "%00 in query": exchange(stack.port, request(b"GET /payments?orderNo=%00 HTTP/1.1", key)),
            "bytes in address": exchange(stack.port, request(b"GET /payments/\xff\xfe HTTP/1.1", key)),
            "%ff in address": exchange(stack.port, request(b"GET /payments/%ff%fe HTTP/1.1", key)),
            "bytes in query": exchange(stack.port, request(b"GET /payments?after=\xff HTTP/1.1", key)),
            "NUL in key": posted(b"Idempotency-Key: a\x00b", length),
            "bytes in key": posted(b"Idempotency-Key: \xff\xfe", length),
            "UTF-8 in key": posted("Idempotency-Key: 付款-1".encode(), length),
            "bytes in Authorization": exchange(
                stack.port, request(b"GET /payments?orderNo=A HTTP/1.1", b"Authorization: Bearer \xff")
            ),
            "bytes in cookie": exchange(
                stack.port, request(b"GET /console/ HTTP/1.1", b'Cookie: sessionid="abcdefgh\\000ijkl"')
            ),
            "bytes in host": exchange(stack.port, b"GET /payments HTTP/1.1\r\nHost: \xff\r\nConnection: close\r\n\r\n"),
            "another host": exchange(stack.port, b"GET /payments HTTP/1.1\r\nHost: evil\r\nConnection: close\r\n\r\n"),
            "length too small": posted(b"Idempotency-Key: k1", b"Content-Length: 10"),
            "length no number": posted(b"Idempotency-Key: k2", b"Content-Length: ten"),
            "length negative": posted(b"Idempotency-Key: k3", b"Content-Length: -1"),
            "two lengths": posted(b"Idempotency-Key: k4", b"Content-Length: 10", length),
            "unknown length": posted(b"Idempotency-Key: k5", b"Transfer-Encoding: chunked", body=chunks),
            "length and chunks": posted(b"Idempotency-Key: k6", b"Transfer-Encoding: chunked", length, body=chunks),
            "gzip": posted(b"Idempotency-Key: k7", b"Content-Encoding: gzip", length, body=b"\x1f\x8b" + BODY[2:]),
            "no HTTP": exchange(stack.port, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
            "long address": exchange(
                stack.port, request(b"GET /payments?orderNo=" + b"x" * 20_000 + b" HTTP/1.1", key)
            ),
            "long header": posted(b"Idempotency-Key: " + b"x" * 60_000, length),
        }

        print({name: status for name, (status, _) in refused.items()})
        for name, (status, body) in refused.items():
            assert status == 0 or 400 <= status < 500, (name, status, body)
            assert b"Traceback" not in body, name
        assert not Payment.objects.exists()
        assert "Internal Server Error" not in stack.log("web")

        status, body = posted(b"Idempotency-Key:  key-1 ", length)
        assert (status, json.loads(body)["idempotencyKey"]) == (202, "key-1")
        assert exchange(stack.port, request(b"HEAD /payments?orderNo=A HTTP/1.1", key)) == (200, b"")


@pytest.mark.django_db(transaction=True)
def test_a_card_number_or_key_sent_anywhere_reaches_no_log_and_no_row():
    """K21, PAY-10: in a field, a broken body, an address, a header, a notification."""
    card = "4111111111111111"
    with running() as (_, stack):
        stack.environment["LOG_LEVEL"] = "DEBUG"
        client = factories.an_api_client(merchant=factories.a_merchant(channel=factories.a_channel()))
        stack.web()

        answers = [
            stack.call("POST", "/payments", key=client.key, body=body, headers=headers)[0]
            for body, headers in [
                (a_body(purpose=f"card {card}"), {}),
                (a_body(paymentToken=card), {}),
                (a_body(amount=card), {}),
                (a_body(currency=card), {}),
                (a_body(channel=card), {}),
                (a_body() | {card: card}, {}),
                (json.dumps(a_body()).encode() + card.encode(), {}),
                (a_body(), {"Idempotency-Key": card}),
                (a_body(), {"Content-Type": f"text/{card}"}),
            ]
        ]
        answers += [stack.call("GET", path, key=client.key)[0] for path in (f"/payments/{card}", f"/payments?x={card}")]
        answers += [stack.call("GET", "/payments?orderNo=A", key=card)[0]]
        answers += [stack.call("POST", "/notifications/bank", key="", body={"text": card})[0]]

        assert all(400 <= status < 500 for status in answers), answers
        assert card not in stack.log("web")
        assert client.key not in stack.log("web")
        assert not IdempotencyRecord.objects.exists()
        assert [card in row.sample for row in RefusedNotifications.objects.all()] == [False]
