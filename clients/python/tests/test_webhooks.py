"""Signatures of webhooks: the example of the specification, and what is not of the platform."""

import pytest

from gpuaas.webhooks import is_genuine

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
SENT = 1614265330
BODY = b'{"test": 2432232314}'
GOOD = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
HEADERS = {
    "Webhook-Id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
    "Webhook-Timestamp": str(SENT),
    "Webhook-Signature": GOOD,
}


def test_the_example_of_the_specification_is_genuine() -> None:
    assert is_genuine(SECRET, HEADERS, BODY, now=SENT + 10)
    rotating = HEADERS | {"Webhook-Signature": f"v1,b2xk {GOOD}"}
    assert is_genuine(SECRET, rotating, BODY, now=SENT)


@pytest.mark.parametrize(
    ("changed", "body", "late"),
    [
        ({}, b'{"test": 2432232315}', 0),
        ({}, BODY, 301),
        ({}, BODY, -301),
        ({"Webhook-Id": "msg_another"}, BODY, 0),
        ({"Webhook-Timestamp": str(SENT + 1)}, BODY, 0),
        ({"Webhook-Timestamp": "now"}, BODY, 0),
        ({"Webhook-Timestamp": "9" * 400}, BODY, 0),
        ({"Webhook-Timestamp": "9" * 5000}, BODY, 0),
        ({"Webhook-Signature": ""}, BODY, 0),
        ({"Webhook-Signature": GOOD.replace("v1,", "v2,")}, BODY, 0),
        ({"Webhook-Signature": "v1,é"}, BODY, 0),
    ],
)
def test_what_was_changed_or_is_old_is_not(changed: dict[str, str], body: bytes, late: int) -> None:
    assert not is_genuine(SECRET, HEADERS | changed, body, now=SENT + late)


@pytest.mark.parametrize("secret", ["", "whsec_", "whsec_!", "whsec_é"])
def test_a_secret_that_is_none_is_refused(secret: str) -> None:
    with pytest.raises(ValueError, match="whsec_"):
        is_genuine(secret, HEADERS, BODY, now=SENT)
