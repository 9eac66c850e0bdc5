"""An operation as data, the request that it becomes, and what the generated methods call."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import httpx

from gpuaas._codec import encode, rfc3339
from gpuaas.errors import UsageError

T = TypeVar("T")


@dataclass(frozen=True)
class Operation(Generic[T]):
    """One operation of the API."""

    verb: str
    path: str
    answer: type[T]
    # takes an idempotency key
    keyed: bool = False
    stream: bool = False


@dataclass(frozen=True)
class Request:
    """One call, the same for all attempts at it."""

    verb: str
    # below the address of the API, encoded
    path: str
    query: tuple[tuple[str, str], ...]
    content: bytes | None
    key: str | None
    # more than one attempt has no more effect than one
    repeatable: bool

    def headers(self) -> dict[str, str]:
        """All headers but that of the token."""
        headers = {"Accept": "application/json"}
        if self.content is not None:
            headers["Content-Type"] = "application/json"
        if self.key is not None:
            headers["X-Idempotency-Key"] = self.key
        return headers


def request(
    operation: Operation[Any], path: Mapping[str, str | int], query: Mapping[str, object], body: object = None, key: str | None = None
) -> Request:
    """The request for a call. An operation that changes something gets a key of its own when none is given."""
    content = None
    dry = False
    if body is not None:
        fields = {name: encode(value) for name, value in body.items() if value is not None} if isinstance(body, dict) else encode(body)
        dry = isinstance(fields, dict) and fields.get("validate_only") is True
        try:
            content = json.dumps(fields, allow_nan=False).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise UsageError(f"an argument is not one that JSON can hold: {error}") from None
    if key is not None and not re.fullmatch(r"[!-~]{1,128}", key):
        raise UsageError("an idempotency key is 1 to 128 visible ASCII characters")
    if key is None and operation.keyed and not dry:
        key = f"py-{uuid.uuid4()}"
    repeatable = operation.verb in ("GET", "HEAD") or key is not None or dry
    return Request(operation.verb, _filled(operation.path, path), tuple(_pairs(query)), content, key, repeatable)


def page_query(query: Mapping[str, object], token: str) -> Mapping[str, object]:
    """The query for the page of a token. A mask that leaves the next page's token out would end the list early."""
    mask = query.get("read_mask")
    return {**query, "page_token": token or None, **({"read_mask": f"{mask},next_page_token"} if mask else {})}


def address(base: httpx.URL, call: Request) -> httpx.URL:
    """Where the request goes."""
    try:
        return base.join(call.path).copy_with(params=call.query) if call.query else base.join(call.path)
    except (httpx.InvalidURL, UnicodeError):
        raise UsageError("an argument of the address is not text, or is too long") from None


def _filled(pattern: str, values: Mapping[str, str | int]) -> str:
    """The path with its values, each one segment: none can reach another route."""
    for name, value in values.items():
        text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
        if not isinstance(text, str) or text in ("", ".", ".."):
            raise UsageError(f"{name} is not the name or id of anything")
        try:
            pattern = pattern.replace("{" + name + "}", quote(text, safe=""))
        except UnicodeEncodeError:
            raise UsageError(f"{name} is not text") from None
    return pattern.lstrip("/")


def _pairs(query: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    for name, value in query.items():
        for item in value if isinstance(value, list | tuple) else [value]:
            if item is not None:
                yield name, _text(item)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return rfc3339(value) if isinstance(value, datetime) else str(value)


class Caller:
    """What the generated methods need of a synchronous client."""

    def _call(
        self,
        operation: Operation[T],
        path: Mapping[str, str | int],
        query: Mapping[str, object],
        body: object,
        key: str | None,
        timeout: float | None,
    ) -> T:
        raise NotImplementedError

    def _pages(
        self, operation: Operation[Any], path: Mapping[str, str | int], query: Mapping[str, object], items: str, timeout: float | None
    ) -> Iterator[Any]:
        raise NotImplementedError

    def _watch(
        self, operation: Operation[T], path: Mapping[str, str | int], query: Mapping[str, object], timeout: float | None
    ) -> Iterator[T]:
        raise NotImplementedError


class AsyncCaller:
    """What the generated methods need of an asynchronous client."""

    async def _call(
        self,
        operation: Operation[T],
        path: Mapping[str, str | int],
        query: Mapping[str, object],
        body: object,
        key: str | None,
        timeout: float | None,
    ) -> T:
        raise NotImplementedError

    def _pages(
        self, operation: Operation[Any], path: Mapping[str, str | int], query: Mapping[str, object], items: str, timeout: float | None
    ) -> AsyncIterator[Any]:
        raise NotImplementedError

    def _watch(
        self, operation: Operation[T], path: Mapping[str, str | int], query: Mapping[str, object], timeout: float | None
    ) -> AsyncIterator[T]:
        raise NotImplementedError
