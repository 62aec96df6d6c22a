"""Whatever bytes come, the answer is a 4xx that names what is wrong; nothing is stored and no key is burnt (K07)."""

import json

import pytest

from tests.api.conftest import a_body, content_of, nothing_stored, problem_of

KEY = "payment-C12345-20260901-01"


def refused(caller, response, *, field, status=400, code=None):
    problem_of(response, status, code, field)
    assert nothing_stored()
    # A refusal stands for nothing: the corrected request has the key for itself (PAY-9).
    assert caller.pay().status_code == 202


def raw(amount: str) -> bytes:
    """A request whose amount is written as given, be it JSON or not."""
    return json.dumps(a_body()).replace('"128.00"', amount).encode()


@pytest.mark.parametrize(
    "amount",
    [
        *("-1", "-0.01", "0", "0.00", "-0.00", "-0", "12.345", "1E-30", "1e400", "1E2", "1e-7", "1" + "0" * 30),
        *("9" * 40, "1000000000000000", "10000000000000", "0." + "0" * 37 + "1", "1." + "0" * 34 + "1"),
        *('"sNaN"', '"NaN"', '"Infinity"', '"-Infinity"', '"1e400"', '"1E-30"', '"1E2"', '"0x10"', '"1_000"'),
        *(
            '"１２.３４"',
            '"1２.34"',
            '"٣.٠٠"',
            '"1,000.00"',
            '"1.000,00"',
            '" 10 "',
            '"10 "',
            '"10\\n"',
            '"+10"',
            '"-10"',
        ),
        *('""', '"."', '".5"', '"5."', '"0"', '"0.00"', '"-0.00"', '"00.5"', '"12.345"', '"1/2"', '"10 CNY"', '"十"'),
        *("null", "true", "false", "[]", "{}", "[128.00]", '{"value": 128.00}', '"1' + "0" * 30 + '"'),
    ],
)
def test_an_amount_that_is_not_a_plain_exact_number_is_refused(caller, amount):
    """FND-1, K07, K13."""
    refused(caller, caller.pay(raw(amount)), field="amount")


@pytest.mark.parametrize(
    "amount", ["NaN", "Infinity", "-Infinity", "sNaN", "01", "1.", ".5", "+1", "0x10", "1" + "0" * 50]
)
def test_an_amount_that_is_not_even_json_is_refused(caller, amount):
    """K07: Python's own parser takes some of these."""
    refused(caller, caller.pay(raw(amount)), field="body")


@pytest.mark.parametrize(
    ("amount", "currency"), [("80.5", "JPY"), ("1000.1", "KRW"), ("1.2345", "KWD"), ("0.001", "CNY"), ("80.0", "JPY")]
)
def test_more_decimals_than_the_currency_has_are_refused_except_zeros(caller, amount, currency):
    """FND-1, K13: nothing is rounded, and 80.0 yen are 80 yen."""
    for form in (amount, f'"{amount}"'):
        response = caller.pay(raw(form).replace(b"CNY", currency.encode()))
        if amount.endswith(".0"):
            assert response.status_code == 202
        else:
            problem_of(response, 400, "too_many_decimals", "amount")
            assert nothing_stored()


@pytest.mark.parametrize(
    ("currency", "code"),
    [
        ("XXX", "unknown_currency"),
        ("XAU", "unknown_currency"),
        ("ABC", "unknown_currency"),
        ("AUD", "currency_not_registered"),
        ("cny", "invalid_field"),
        ("CN", "invalid_field"),
        ("CNYX", "invalid_field"),
        ("CN\n", "invalid_field"),
        ("ＣＮＹ", "invalid_field"),
        ("", "invalid_field"),
    ],
)
def test_only_registered_currencies_take_a_payment(caller, currency, code):
    """FND-2."""
    refused(caller, caller.pay(currency=currency), field="currency", code=code)


@pytest.mark.parametrize("name", ["nowhere", "BANK", "bank\n", "", "b" * 33, "../bank", "bank\u0000"])
def test_only_known_channels_take_a_payment(caller, name):
    response = caller.pay(channel=name)

    refused(caller, response, field="body" if "\0" in name else "channel")


def test_a_channel_that_is_switched_off_takes_no_payment(caller, channel):
    channel.enabled = False
    channel.save()

    problem_of(caller.pay(), 400, "channel_not_usable", "channel")


TEXTS = ("customerId", "orderNo", "idempotencyKey", "paymentToken")


@pytest.mark.parametrize("field", TEXTS)
@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "\t", "　", " a", "a ", "a\n", "\na", "a\rb", "a\x01b", "a\x7fb", "a\x85b", "a\u2028b", "a\u202eb"),
        *("a\u200bb", "\ufeffa", "x" * 256),
    ],
)
def test_texts_that_nobody_can_tell_apart_by_eye_are_refused(caller, field, text):
    """K07, K23: blank, over-long, control characters, a line feed at the end, marks without a width."""
    refused(caller, caller.pay(**{field: text}), field=field)


@pytest.mark.parametrize("field", TEXTS)
@pytest.mark.parametrize("value", [1, 1.5, True, [], {}, ["a"]])
def test_a_text_of_another_type_is_refused(caller, field, value):
    refused(caller, caller.pay(**{field: value}), field=field)


@pytest.mark.parametrize("field", ["customerId", "amount", "currency", "paymentToken"])
def test_a_missing_field_is_named(caller, field):
    refused(caller, caller.pay(**{field: None}), field=field)


@pytest.mark.parametrize("value", ["true", 1, None, []])
def test_intended_is_true_or_false(caller, value):
    refused(caller, caller.pay(json.dumps(a_body() | {"intended": value}).encode()), field="intended")


@pytest.mark.parametrize("value", ["nothing", "01K3F7D8V6JQ2R9M4A1C5E0NX\n", "01k3f7d8v6jq2r9m4a1c5e0nxt", 1])
def test_replaces_names_a_payment(caller, value):
    refused(caller, caller.pay(replaces=value), field="replaces")


def test_a_field_nobody_knows_is_refused_by_name(caller):
    """A misspelt `orderNo` must not pay without one."""
    refused(caller, caller.pay(order_no2="A-1"), field="order_no2")


def test_a_key_of_255_characters_is_accepted_and_one_of_256_is_not(caller):
    """K23."""
    problem_of(caller.pay(idempotencyKey="k" * 256), 400, "invalid_field", "idempotencyKey")

    assert caller.pay(idempotencyKey="k" * 255).status_code == 202
    assert len(content_of(caller.get("/payments?idempotencyKey=" + "k" * 255))["payments"]) == 1
    assert len(content_of(caller.get("/payments?orderNo=" + "k" * 255))["payments"]) == 1


@pytest.mark.parametrize("key", ["", " ", "k" * 256, "a\x00b", "a\x1fb", " a", "\xff\xfe", "ü", "付款"])
def test_a_bad_key_in_the_header_is_refused(caller, key):
    """K23: the same rule as in the body, and ASCII: servers differ in what they make of the rest."""
    response = caller.pay(idempotencyKey=None, headers={"Idempotency-Key": key})

    refused(caller, response, field="Idempotency-Key")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"not json",
        b"\x00",
        b'{"customerId": "C1\x00"}',
        b"{'customerId': 'C1'}",
        b'{"customerId": "C1",}',
        b'{"customerId": "C1"} {"customerId": "C2"}',
        b'{"customerId": "\xff\xfe"}',
        b'{"customerId": "\xed\xa0\x80"}',
        b'{"customerId": "a\x01b"}',
        json.dumps(a_body()).encode("utf-16"),
        json.dumps(a_body()).encode("utf-32"),
        b"\xef\xbb\xbf" + json.dumps(a_body()).encode(),
        json.dumps(a_body(customerId="客户")).replace("\\u5ba2\\u6237", "客户").encode("gbk"),
        json.dumps(a_body(customerId="C\u0000")).encode(),
        json.dumps(a_body(purpose="a\u0000b")).encode(),
        json.dumps(a_body(customerId="C\ud800")).encode(),
        json.dumps(a_body(purpose="\udfff")).encode(),
        json.dumps(a_body() | {"a\u0000b": 1}).encode(),
        b"[" * 10_000,
        b"[" * 10_000 + b"]" * 10_000,
        b'{"a":' * 10_000 + b"1" + b"}" * 10_000,
        raw("[" * 17 + "]" * 17),
        json.dumps(a_body()).replace('"CNY"', '"CNY", "currency": "CNY"').encode(),
        json.dumps(a_body()).replace('"128.00"', '"128.00", "amount": "1.00"').encode(),
        json.dumps(a_body()).replace('"amount"', '"\\u0061mount": "1.00", "amount"').encode(),
    ],
)
def test_a_body_that_is_no_strict_json_is_refused(caller, body):
    """K07: broken, other encodings, NUL, half characters, deep nesting, a field twice."""
    response = caller.pay(body)

    refused(caller, response, field="customerId" if body == b"" else "body")


@pytest.mark.parametrize("body", [b"[]", b"null", b"1", b"true", b'"text"', b"[{}]"])
def test_a_body_that_is_no_object_is_refused(caller, body):
    refused(caller, caller.pay(body), field="body")


@pytest.mark.parametrize("size", [64 * 1024 + 1, 1024 * 1024, 3 * 1024 * 1024])
def test_a_body_above_64_kib_is_refused(caller, size):
    body = json.dumps(a_body(purpose="x" * size)).encode()

    refused(caller, caller.pay(body), status=413, field=None, code="body_too_large")


def test_a_body_of_64_kib_is_read(caller):
    body = json.dumps(a_body()).encode().ljust(64 * 1024)

    assert caller.pay(body).status_code == 202


@pytest.mark.parametrize(
    "kind",
    ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/jsonx", ""],
)
def test_only_application_json_is_read(caller, kind):
    response = caller.pay(headers={"Content-Type": kind})

    refused(caller, response, status=415, field=None, code="unsupported_media_type")


def test_a_charset_behind_the_content_type_is_no_harm(caller):
    assert caller.pay(headers={"Content-Type": "application/json; charset=utf-8"}).status_code == 202


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        *(
            (method, "/payments", "GET, POST, HEAD")
            for method in ("PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW")
        ),
        *((method, "/payments/" + "0" * 26, "GET, HEAD") for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS")),
        *((method, "/notifications/bank", "POST") for method in ("GET", "PUT", "DELETE", "OPTIONS", "HEAD")),
        ("POST", "/openapi.json", "GET, HEAD, OPTIONS"),
    ],
)
def test_another_method_is_405_and_says_which_are_allowed(caller, method, path, allowed):
    response = caller.call(method, path)

    assert response.status_code == 405
    assert response["Content-Type"] == "application/problem+json"
    assert response["Allow"] == allowed


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("", "orderNo"),
        ("limit=10", "orderNo"),
        ("orderNo=", "orderNo"),
        ("orderNo=%20", "orderNo"),
        ("orderNo=a%0A", "orderNo"),
        ("orderNo=a%01", "orderNo"),
        ("orderNo=a%E2%80%8B", "orderNo"),
        ("orderNo=" + "x" * 256, "orderNo"),
        ("customerId=" + "x" * 65, "customerId"),
        ("idempotencyKey=" + "x" * 256, "idempotencyKey"),
        ("orderNo=a%00b", "address"),
        ("order%00No=a", "address"),
        ("orderNo=a&customerNo=b", "customerNo"),
        ("orderNo=a&order_no=b", "order_no"),
        ("orderNo=a&orderNo=a", "orderNo"),
        ("orderNo=a&limit=1&limit=1", "limit"),
        ("orderNo=a&after=" + "x" * 26, "after"),
        ("orderNo=a&after=0123", "after"),
        ("orderNo=a&after=" + "0" * 26 + "%0A", "after"),
        *(
            (f"orderNo=a&limit={limit}", "limit")
            for limit in ("0", "-1", "101", "9999", "1e1", "1.0", "", "ten", "%EF%BC%91", "+5", "%205", "9" * 400)
        ),
    ],
)
def test_a_search_with_a_bad_parameter_is_refused_by_its_name(caller, query, field):
    """K07: what does not exist must not widen the result."""
    problem_of(caller.get(f"/payments?{query}"), 400, field=field)


@pytest.mark.parametrize(
    "path",
    [
        *("/payments/%00", "/payments/01K3F7D8V6JQ2R9M4A1C5E0NX%00", "/notifications/%00", "/notifications/bank%00"),
        *(
            "/payments/" + "0" * 25,
            "/payments/" + "0" * 27,
            "/payments/" + "０" * 26,
            "/payments/../healthz",
            "/payments/",
        ),
        *(
            "/payments/01k3f7d8v6jq2r9m4a1c5e0nxt",
            "/payments/" + "0" * 26 + "%0A",
            "/payments/%FF",
            "/%ff%fe",
            "/payment",
        ),
    ],
)
def test_an_address_that_names_nothing_is_a_problem_of_the_caller(caller, path):
    """K07."""
    response = caller.get(path)

    problem_of(response, 400 if "%00" in path else 404)


def test_a_zero_byte_in_a_cookie_reaches_no_query(client, db):
    """K07: a quoted cookie can hold one."""
    response = client.get("/console/", headers={"Cookie": 'sessionid="abcdefgh\\000ijkl"'})

    problem_of(response, 400, "invalid_cookie")


@pytest.mark.parametrize("wish", ["wait=x", "wait=-1", "wait=", "wait=1e9", "wait=99999999", "wait", "\xff", "wait=０"])
def test_a_wish_to_wait_that_cannot_be_read_is_no_wish(caller, wish):
    """RFC 7240: a preference that is not understood is ignored."""
    assert caller.pay(headers={"Prefer": wish}).status_code == 202


@pytest.mark.parametrize("field", ["paymentToken", "purpose"])
@pytest.mark.parametrize(
    "text",
    [
        *(
            "4111111111111111",
            "4111 1111 1111 1111",
            "4111-1111-1111-1111",
            "card 4111111111111111 of C1",
            "378282246310005",
        ),
        *("x4111111111111111y", "4222222222222", "6304000000000000000", "tok_5555555555554444"),
    ],
)
def test_a_card_number_is_refused_and_not_stored(caller, field, text):
    """PAY-10, K21."""
    text = text.replace(" ", "") if field == "paymentToken" else text

    response = caller.pay(**{field: text})

    assert text not in response.content.decode()
    refused(caller, response, field=field, code="card_number_refused")


def test_digits_that_are_no_card_number_are_a_purpose_like_any_other(caller):
    assert caller.pay(purpose="invoice 4111111111111112 of 2026-09-01").status_code == 202


@pytest.mark.parametrize("purpose", ["４１１１１１１１１１１１１１１１", "4111/1111/1111/1111", "5 4111111111111111"])
def test_a_card_number_in_disguise_is_refused_too(caller, purpose):
    """PAY-10."""
    problem_of(caller.pay(purpose=purpose), 400, "card_number_refused", field="purpose")
