"""Models to JSON and back, by the table of shapes.

A kind is `str`, `int`, `int64` (a string on the wire), `float`, `bool`, `bytes` (base64), `time` (RFC 3339), `json`
(as it is), the name of a model, `[kind]` or `{kind}`; `?` after it says that absent means unset. Enums are `str`: one
that this version does not know is kept. Fields that it does not know are ignored.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import Any, TypeVar

from gpuaas import models
from gpuaas._shapes import SHAPES
from gpuaas.errors import ProtocolError, UsageError

T = TypeVar("T")
# Deeper than any message; what is deeper is not of the API.
_MOST_DEPTH = 64
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[Tt](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(?:[Zz]|([+-])(\d\d):(\d\d))")
_FLOATS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


def parse(body: bytes) -> Any:
    """The JSON of an answer."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise ProtocolError(f"the answer is not JSON: {body[:80]!r}") from None


def decode(value: Any, model: type[T]) -> T:
    """The model that the JSON is."""
    if model is dict:
        return _json(value, model.__name__)  # type: ignore[no-any-return]
    decoded: T = _message(value, model.__name__, model.__name__, 0)
    return decoded


def _wrong(where: str, wanted: str) -> ProtocolError:
    return ProtocolError(f"the answer is not of the API's form: {where} is not {wanted}")


def _json(value: Any, where: str) -> Any:
    if not isinstance(value, dict):
        raise _wrong(where, "an object")
    return value


def _message(value: Any, name: str, where: str, depth: int) -> Any:
    _json(value, where)
    if depth > _MOST_DEPTH:
        raise _wrong(where, "of a depth that messages have")
    given = {}
    for wire, own, kind in SHAPES[name]:
        part = value.get(wire)
        if part is not None:
            given[own] = _value(part, kind.removesuffix("?"), f"{where}.{wire}", depth)
    return getattr(models, name)(**given)


def _value(value: Any, kind: str, where: str, depth: int) -> Any:
    if kind[0] == "[":
        if not isinstance(value, list):
            raise _wrong(where, "a list")
        return [_value(item, kind[1:-1], where, depth) for item in value]
    if kind[0] == "{":
        return {key: _value(item, kind[1:-1], where, depth) for key, item in _json(value, where).items()}
    read = _SCALARS.get(kind)
    return read(value, where) if read else _message(value, kind, where, depth + 1)


def _str(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise _wrong(where, "a string")
    return value


def _int(value: Any, where: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,20}", value, re.ASCII):
        return int(value)
    raise _wrong(where, "a whole number")


def _float(value: Any, where: str) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, str) and value in _FLOATS:
        return _FLOATS[value]
    raise _wrong(where, "a number")


def _bool(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise _wrong(where, "a truth value")
    return value


def _bytes(value: Any, where: str) -> bytes:
    try:
        return base64.b64decode(_str(value, where), validate=True)
    except (binascii.Error, ValueError):
        raise _wrong(where, "base64") from None


def _time(value: Any, where: str) -> datetime:
    """Nanoseconds are cut to microseconds, which is what `datetime` holds."""
    found = _TIME.fullmatch(_str(value, where))
    if not found:
        raise _wrong(where, "a time")
    day, hour, fraction, sign, hours, minutes = found.groups()
    try:
        time = datetime.fromisoformat(f"{day}T{hour}").replace(tzinfo=timezone.utc)
        offset = timedelta(hours=int(hours or 0), minutes=int(minutes or 0))
        time = time + offset if sign == "-" else time - offset
    except (ValueError, OverflowError):
        raise _wrong(where, "a time") from None
    return time.replace(microsecond=int((fraction or "0").ljust(6, "0")[:6]))


_SCALARS = {"str": _str, "int": _int, "int64": _int, "float": _float, "bool": _bool, "bytes": _bytes, "time": _time, "json": _json}


def encode(value: Any) -> Any:
    """What an argument is as JSON. Fields of a model that are empty are left out, as unset ones are."""
    name = type(value).__name__
    if type(value).__module__ == models.__name__ and name in SHAPES:
        parts = ((wire, getattr(value, own), kind) for wire, own, kind in SHAPES[name])
        return {wire: _encode(part, kind) for wire, part, kind in parts if _is_set(part, kind)}
    if isinstance(value, datetime):
        return rfc3339(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, list | tuple):
        return [encode(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): encode(item) for key, item in value.items()}
    return value


def _is_set(part: Any, kind: str) -> bool:
    if part is None:
        return False
    if kind.endswith("?"):
        return True
    if kind.removesuffix("?") in SHAPES:
        return part != getattr(models, kind)() or kind not in _EMPTY_MEANS_UNSET
    return part not in ("", 0, False, b"", [], {}, "unspecified")


# Parts of a resource that stand for an absent one when they are empty.
_EMPTY_MEANS_UNSET = {kind for shape in SHAPES.values() for wire, _, kind in shape if wire in ("config", "status", "metadata")}


def _encode(part: Any, kind: str) -> Any:
    return str(part) if kind.removesuffix("?") == "int64" else encode(part)


def rfc3339(time: datetime) -> str:
    """The time for the API; one without zone is refused, because whose zone it is in is not known."""
    if time.tzinfo is None:
        raise UsageError("a time needs a zone, for example datetime.now(timezone.utc)")
    return time.astimezone(timezone.utc).isoformat().replace("+00:00", "Z")
