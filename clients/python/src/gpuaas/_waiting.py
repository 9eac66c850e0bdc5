"""What waiters wait for."""

from __future__ import annotations

from gpuaas import reasons
from gpuaas.errors import AllocationFailedError, ApiError, GpuaasError
from gpuaas.models import Allocation, AllocationState

_TOO_LATE: dict[AllocationState, set[str]] = {
    "active": {"releasing", "released", "failed"},
    "released": {"failed"},
}


def reached(allocation: Allocation, state: AllocationState) -> bool:
    """Whether the allocation is in the state; fails when it cannot come there any more."""
    if allocation.status.state == state:
        return True
    if allocation.status.state in _TOO_LATE[state]:
        raise AllocationFailedError(allocation)
    return False


def final(error: GpuaasError) -> bool:
    """Whether looking again cannot help: the allocation is foreign or gone, or the token is refused."""
    if not isinstance(error, ApiError):
        return False
    expired = error.reason == reasons.RESUME_TOKEN_EXPIRED
    return error.http_status < 500 and error.http_status != 429 and not expired
