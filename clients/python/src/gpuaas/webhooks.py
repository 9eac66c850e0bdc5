"""Whether a delivery to a webhook is of the platform: the signatures of Standard Webhooks."""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from collections.abc import Mapping

__all__ = ["TOLERANCE", "is_genuine"]

TOLERANCE = 300.0
"""Seconds that a delivery may be older or newer than the clock here."""
_MOST_DIGITS = 15


def is_genuine(secret: str, headers: Mapping[str, str], body: bytes, *, tolerance: float = TOLERANCE, now: float | None = None) -> bool:
    """Tell whether a delivery was signed with the secret of the webhook, and just now.

    `body` is what came, byte for byte. Header names are compared without regard to case. While a secret is rotated a
    delivery has two signatures, and one that is good is enough.
    """
    key = _key_of(secret)
    known = {name.lower(): value for name, value in headers.items()}
    delivery, sent = known.get("webhook-id"), known.get("webhook-timestamp", "")
    # a longer one is no time, and may be too large for a number
    if not delivery or not (sent.isascii() and sent.isdigit() and len(sent) <= _MOST_DIGITS):
        return False
    if abs((time.time() if now is None else now) - int(sent)) > tolerance:
        return False
    content = f"{delivery}.{sent}.".encode() + body
    made = base64.b64encode(hmac.new(key, content, hashlib.sha256).digest())
    expected = b"v1," + made
    given = known.get("webhook-signature", "").split()
    return any(hmac.compare_digest(expected, one.encode()) for one in given)


def _key_of(secret: str) -> bytes:
    try:
        key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except ValueError:
        key = b""
    if not key:
        # with an empty key anybody could sign
        raise ValueError("a secret is whsec_ and base64")
    return key
