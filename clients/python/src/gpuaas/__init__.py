"""Python SDK of GPUaaS.

`Client` and `AsyncClient` have one method for each operation of the API, named as there: `CreateAllocation` is
`create_allocation`. `gpuaas.models` has the messages, `gpuaas.errors` what can go wrong, `gpuaas.reasons` the reasons
of errors.
"""

from gpuaas import errors, models, reasons
from gpuaas._async_client import AsyncClient
from gpuaas._client import Client
from gpuaas._policy import Retries
from gpuaas.errors import (
    AllocationFailedError,
    ApiError,
    CallTimeoutError,
    GpuaasError,
    ProtocolError,
    SecretLostError,
    TransportError,
    UsageError,
    WaitTimeoutError,
)

__all__ = [
    "AllocationFailedError",
    "ApiError",
    "AsyncClient",
    "CallTimeoutError",
    "Client",
    "GpuaasError",
    "ProtocolError",
    "Retries",
    "SecretLostError",
    "TransportError",
    "UsageError",
    "WaitTimeoutError",
    "errors",
    "models",
    "reasons",
]
