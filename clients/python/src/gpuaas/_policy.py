"""Decisions that the synchronous and the asynchronous client share: when to try again, and what an answer means."""

from __future__ import annotations

import email.utils
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from gpuaas import _once as once
from gpuaas._codec import decode, parse
from gpuaas._operation import Operation, Request
from gpuaas.errors import ApiError, CallTimeoutError, GpuaasError, ProtocolError, TransportError, api_error, problem_of

T = TypeVar("T")


@dataclass(frozen=True)
class Retries:
    """When a call is tried again: after transport errors, 503, and 429 with `Retry-After`.

    A call that changes something keeps its idempotency key, so that it has one effect.
    """

    #: Most attempts in all; 1 tries nothing again.
    attempts: int = 5
    #: Seconds before the second attempt; doubled for each later one, with jitter.
    first_delay: float = 0.25
    #: Longest wait between two attempts, in seconds.
    longest_delay: float = 8.0
    #: Longest `Retry-After` that is waited for; one above it is raised at once.
    longest_retry_after: float = 60.0

    def delay(self, error: GpuaasError, attempt: int, chance: float) -> float | None:
        """Seconds to wait after the attempt (from 0) that failed; `None`: do not. `chance` is from 0 to 1."""
        if attempt + 1 >= self.attempts or not may_pass(error):
            return None
        wait = min(self.longest_delay, self.first_delay * 2.0 ** min(attempt, 32)) * (0.5 + chance / 2)
        asked = error.retry_after if isinstance(error, ApiError) else None
        if asked is None:
            return wait
        return None if asked > self.longest_retry_after else asked + self.first_delay * chance


def may_pass(error: GpuaasError) -> bool:
    """Whether the same call may succeed a moment later."""
    if isinstance(error, ApiError):
        return error.http_status == 503 or (error.http_status == 429 and error.retry_after is not None)
    return isinstance(error, TransportError)


@dataclass
class Deadline:
    """The end of a call, in seconds of a clock that never goes back."""

    seconds: float | None
    clock: Callable[[], float] = time.monotonic
    begun: float = field(init=False)

    def __post_init__(self) -> None:
        self.begun = self.clock()

    def left(self) -> float:
        """Seconds until the end; infinite without one."""
        return float("inf") if self.seconds is None else self.begun + self.seconds - self.clock()

    def within(self, most: float) -> float:
        """The rest of the time, at most so many seconds; fails when none is left."""
        left = self.left()
        if left <= 0:
            raise CallTimeoutError(f"no answer came within {self.seconds:g} s")
        return min(most, left)


@dataclass
class Body:
    """The body of an answer as it comes in: not larger than allowed, and not later."""

    most: int
    deadline: Deadline
    parts: list[bytes] = field(default_factory=list)
    size: int = 0

    def add(self, chunk: bytes) -> None:
        """Takes a piece."""
        self.size += len(chunk)
        if self.size > self.most:
            raise ProtocolError(f"the answer is larger than {self.most} bytes")
        self.parts.append(chunk)
        self.deadline.within(0)

    def whole(self) -> bytes:
        """All of it."""
        return b"".join(self.parts)


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds that the server asks to wait: a number or a date; `None` for anything else."""
    value = headers.get("retry-after", "").strip()
    if value.isascii() and value.isdigit() and len(value) < 10:
        return float(value)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - now)
    except (TypeError, ValueError, IndexError, OverflowError):
        return None


def answer(operation: Operation[T], request: Request, status: int, headers: Mapping[str, str], body: bytes) -> T:
    """What the call returns; raises what the answer means otherwise."""
    if 200 <= status < 300:
        answered = decode(parse(body), operation.answer)
        once.check(operation, request, answered)
        return answered
    raise refusal(request, status, headers, body)


def refusal(request: Request, status: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    """The exception of an answer that is no success, whatever its body is."""
    try:
        told: Any = parse(body)
    except ProtocolError:
        told = None
    problem = problem_of(status, headers, told)
    return api_error(replace(problem, retry_after=retry_after(headers, time.time())), request.key)
