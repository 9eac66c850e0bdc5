"""The state of a watch: lines, messages, and where to go on after a lost stream. It does no input or output."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from gpuaas._codec import decode, parse
from gpuaas._operation import Operation, Request, request
from gpuaas._policy import Deadline, Retries, may_pass
from gpuaas.errors import (
    ApiError,
    GpuaasError,
    PermissionDeniedError,
    ProtocolError,
    TransportError,
    UnauthenticatedError,
    api_error,
    problem_of,
)

T = TypeVar("T")
# HTTP statuses of the codes with which a stream may break and be opened again.
MOST_LINE_BYTES = 16 * 1024 * 1024


@dataclass
class Lines:
    """Bytes of a stream into lines."""

    rest: bytearray = field(default_factory=bytearray)

    def take(self, chunk: bytes) -> Iterator[bytes]:
        """The lines that the piece completes."""
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            whole = bytes(self.rest) + line
            self.rest.clear()
            if whole.strip():
                yield whole
        self.rest += rest
        if len(self.rest) > MOST_LINE_BYTES:
            raise ProtocolError(f"a line of the stream is longer than {MOST_LINE_BYTES} bytes")


@dataclass
class Watching(Generic[T]):
    """One watch over as many streams as it takes."""

    operation: Operation[T]
    path: Mapping[str, str | int]
    query: Mapping[str, object]
    retries: Retries
    deadline: Deadline
    token: str = ""
    ended: bool = False
    # messages since the stream was opened, and failures since the last message
    messages: int = 0
    failures: int = 0

    def __post_init__(self) -> None:
        given = self.query.get("resume_token")
        self.token = given if isinstance(given, str) else ""

    def open(self) -> Request:
        """The request that opens the next stream."""
        self.messages = 0
        query: dict[str, Any] = {**self.query, "resume_token": self.token or None}
        return request(self.operation, self.path, query)

    def message(self, line: bytes) -> T:
        """The message of a line; raises the error that a line holds."""
        read = parse(line)
        if isinstance(read, dict) and "error" in read:
            code = read["error"].get("code") if isinstance(read["error"], dict) else None
            raise api_error(problem_of(code if isinstance(code, int) else 0, {}, read))
        message = decode(read, self.operation.answer)
        token = getattr(message, "resume_token", "")
        if isinstance(token, str) and token:
            self.token = token
        self.messages += 1
        self.failures = 0
        self.ended = getattr(message, "end", None) is not None
        return message

    def lost(self, error: GpuaasError | None, chance: float) -> float:
        """Seconds until the next stream, after one that ended; raises the error when there is no next one."""
        error = error or TransportError("the stream ended")
        # a token that expired while the stream was open may have been renewed since, and an access that changed may still allow it
        renewed = isinstance(error, UnauthenticatedError | PermissionDeniedError) and self.messages > 0
        broken = self.messages > 0 and isinstance(error, ApiError) and error.status == "UNAVAILABLE"
        if not (renewed or broken or may_pass(error)):
            raise error
        wait = self.retries.delay(TransportError("again") if renewed or broken else error, self.failures, chance)
        self.failures += 1
        if wait is None or wait >= self.deadline.left():
            raise error
        return wait
