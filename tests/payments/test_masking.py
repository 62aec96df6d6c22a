"""PAY-10, K21: card numbers are found and masked; identifiers are not."""

import pytest

from payments.masking import holds_card_number, mask_card_numbers, storable


@pytest.mark.parametrize(
    "text",
    [
        "4111111111111111",
        "4111 1111 1111 1111",
        "4111-1111-1111-1111",
        "4111.1111.1111.1111",
        "4111  1111  1111  1111",
        "４１１１１１１１１１１１１１１１",
        "4111/1111/1111/1111",
        "4111,1111,1111,1111",
        "4111_1111_1111_1111",
        "4111–1111–1111–1111",
        "4111\u200b1111\u200b1111\u200b1111",
        "card 5555555555554444.",
        "x6011000990139424",
        "5 4111111111111111",
        "4111111111111111 99",
        "3782 822463 10005",
    ],
)
def test_a_card_number_is_found_however_it_is_written(text):
    assert holds_card_number(text)
    assert not holds_card_number(mask_card_numbers(text))


@pytest.mark.parametrize("text", ["4111111111111112", "123456789012", "41111111111111111111", "order 12345", ""])
def test_other_numbers_are_left_alone(text):
    assert not holds_card_number(text)
    assert mask_card_numbers(text) == text


def test_a_masked_number_shows_its_last_four_digits():
    assert mask_card_numbers("paid by 4111 1111 1111 1111 today") == "paid by ************1111 today"


def test_the_bank_s_transaction_id_stays_whole_though_its_digits_pass_the_check():
    body = '{"bankTransactionId":"BANK-4111111111111111","text":"card 5555555555554444"}'

    kept = storable(body, 200, keep=("BANK-4111111111111111",))

    assert "BANK-4111111111111111" in kept
    assert "5555555555554444" not in kept
