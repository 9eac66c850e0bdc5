"""What can go wrong. Every exception of the SDK is a `GpuaasError`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpuaas.models import Allocation

# Longest text of a server that a message shows.
_MOST_TEXT = 2_000


def plain(text: object) -> str:
    """The text of a server as one may print it: without control characters, and not too long."""
    shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in str(text)[:_MOST_TEXT])
    return shown


class GpuaasError(Exception):
    """Base of all exceptions of the SDK."""


class UsageError(GpuaasError, ValueError):
    """An argument or a setting cannot be used; nothing was sent."""


class TransportError(GpuaasError):
    """No answer came. Whether the call had an effect is not known: repeat it with the same idempotency key."""

    def __init__(self, message: str, idempotency_key: str | None = None) -> None:
        super().__init__(message)
        self.idempotency_key = idempotency_key


class CallTimeoutError(TransportError, TimeoutError):
    """No answer came in time."""


class ProtocolError(GpuaasError):
    """The answer is not one of the API: not JSON, too large, or of another form."""


class SecretLostError(GpuaasError):
    """What the call asked for is made, and its secret was in an answer that got lost: it is not shown again.

    `answer` is what was made, without the secret. The message says what to do, such as to rotate a key.
    """

    def __init__(self, message: str, answer: object, idempotency_key: str | None = None) -> None:
        super().__init__(message)
        self.answer = answer
        self.idempotency_key = idempotency_key


@dataclass(frozen=True)
class FieldViolation:
    """A field that breaks a rule."""

    field: str
    description: str


@dataclass(frozen=True)
class Problem:
    """An error as the API reports it."""

    http_status: int
    status: str = ""
    message: str = ""
    reason: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    field_violations: tuple[FieldViolation, ...] = ()
    request_id: str = ""
    retry_after: float | None = None


class ApiError(GpuaasError):
    """The API, or something before it, refused the call or failed."""

    def __init__(self, problem: Problem, idempotency_key: str | None = None) -> None:
        self.problem = problem
        self.idempotency_key = idempotency_key
        text = plain(problem.message) or f"HTTP {problem.http_status}"
        for violation in problem.field_violations[:10]:
            text += f"; {plain(violation.field)}: {plain(violation.description)}"
        about = [plain(part) for part in (problem.reason, problem.request_id and f"request {problem.request_id}") if part]
        super().__init__(f"{text} ({', '.join(about)})" if about else text)

    @property
    def http_status(self) -> int:
        """The HTTP status; 0 in a stream that broke without one."""
        return self.problem.http_status

    @property
    def status(self) -> str:
        """The `google.rpc.Code` by name, such as `NOT_FOUND`; empty where a proxy answered."""
        return self.problem.status

    @property
    def message(self) -> str:
        """A sentence for people."""
        return self.problem.message

    @property
    def reason(self) -> str:
        """One of `gpuaas.reasons`; empty where a proxy answered. Act on this."""
        return self.problem.reason

    @property
    def metadata(self) -> Mapping[str, str]:
        """What the reason refers to, such as `quota` and `limit`."""
        return self.problem.metadata

    @property
    def field_violations(self) -> tuple[FieldViolation, ...]:
        """Each offending field with the rule that it breaks."""
        return self.problem.field_violations

    @property
    def request_id(self) -> str:
        """Names the request in logs; quote it when asking for help."""
        return self.problem.request_id

    @property
    def retry_after(self) -> float | None:
        """Seconds after which the API asks to try again."""
        return self.problem.retry_after


class InvalidRequestError(ApiError):
    """A field is wrong, or the resource's state does not allow the call (400)."""


class UnauthenticatedError(ApiError):
    """The token is missing, wrong or expired (401)."""


class PermissionDeniedError(ApiError):
    """The caller may not do this, or a quota does not allow it (403)."""


class NotFoundError(ApiError):
    """There is no such thing for this caller (404)."""


class ConflictError(ApiError):
    """Something else is in the way: a name that is taken, a stale etag, missing capacity (409)."""


class RateLimitedError(ApiError):
    """Too many calls (429)."""


class ServerError(ApiError):
    """The platform, or a proxy before it, failed (5xx)."""


_BY_STATUS: dict[int, type[ApiError]] = {
    400: InvalidRequestError,
    401: UnauthenticatedError,
    403: PermissionDeniedError,
    404: NotFoundError,
    409: ConflictError,
    429: RateLimitedError,
}


def api_error(problem: Problem, idempotency_key: str | None = None) -> ApiError:
    """The exception for a problem, by its HTTP status."""
    kind = _BY_STATUS.get(problem.http_status) or (ServerError if problem.http_status >= 500 else ApiError)
    return kind(problem, idempotency_key)


class AllocationFailedError(GpuaasError):
    """The allocation that was waited for cannot reach the state any more."""

    def __init__(self, allocation: Allocation) -> None:
        failure = allocation.status.failure
        self.allocation = allocation
        self.reason: str = failure.reason if failure else ""
        self.advice: str = failure.advice if failure else ""
        self.step: str = failure.step if failure else ""
        told = failure.message if failure else f"its state is {allocation.status.state}"
        text = f"allocation {plain(allocation.id)}: {plain(told)}"
        super().__init__(f"{text} ({plain(self.reason)})" if self.reason else text)


class WaitTimeoutError(GpuaasError, TimeoutError):
    """The deadline of a waiter passed. The allocation goes on; `allocation` is its last known state."""

    def __init__(self, allocation_id: str, allocation: Allocation | None) -> None:
        self.allocation = allocation
        state = allocation.status.state if allocation else "not known"
        super().__init__(f"allocation {plain(allocation_id)}: the deadline passed; its state is {plain(state)}")


def problem_of(status: int, headers: Mapping[str, str], body: Any) -> Problem:
    """The problem in an answer; `body` is its JSON, or `None` when it has none. Takes any form without failing."""
    error = body.get("error") if isinstance(body, dict) else None
    error = error if isinstance(error, dict) else {}
    details = error.get("details")
    details = [part for part in details if isinstance(part, dict)] if isinstance(details, list) else []
    reason, request_id = "", headers.get("x-request-id", "")
    metadata: dict[str, str] = {}
    violations: list[FieldViolation] = []
    for part in details:
        reason = reason or _text(part.get("reason"))
        if isinstance(part.get("metadata"), dict) and not metadata:
            metadata = {str(k): _text(v) for k, v in part["metadata"].items()}
        if _text(part.get("request_id")):
            request_id = _text(part.get("request_id"))
        found = part.get("field_violations")
        for violation in found if isinstance(found, list) else []:
            if isinstance(violation, dict):
                violations.append(FieldViolation(_text(violation.get("field")), _text(violation.get("description"))))
    told = _text(error.get("message"))
    if not told:
        kind = plain(headers.get("content-type", "")) or "no content type"
        told = f"HTTP {status}, and the answer is not one of the API ({kind})"
    return Problem(status, _text(error.get("status")), told, reason, metadata, tuple(violations), request_id)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
