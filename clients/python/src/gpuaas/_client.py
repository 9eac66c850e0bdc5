"""The synchronous client."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import httpx

from gpuaas import _settings as settings
from gpuaas import _table as table
from gpuaas._operation import Operation, Request, address, page_query, request
from gpuaas._operations import Operations
from gpuaas._policy import Body, Deadline, Retries, answer, refusal
from gpuaas._waiting import final, reached
from gpuaas._watching import Lines, Watching
from gpuaas.errors import ApiError, CallTimeoutError, GpuaasError, ProtocolError, SecretLostError, TransportError, WaitTimeoutError
from gpuaas.models import Allocation, AllocationState, WatchAllocationResponse

if TYPE_CHECKING:
    from gpuaas.terminal import Terminal

T = TypeVar("T")
USER_AGENT = "gpuaas-python/0.1.0"
CONNECT_SECONDS = 10.0
# A stream has a heartbeat more often than this.
SILENCE_SECONDS = 60.0
# Body of an error that is read.
MOST_ERROR_BYTES = 1024 * 1024


class Client(Operations):
    """The API with one token. Use it in one thread at a time, or give each thread its own.

    base_url: address of the API; else the environment's `GPUAAS_API`.
    token: the token, or a function that returns the current one; else `GPUAAS_TOKEN`.
    token_file: a file with the token, read for every call, so that a renewed one is used; else `GPUAAS_TOKEN_FILE`.
    timeout: seconds for a call with all its attempts. A method's own `timeout` goes before it.
    max_answer_bytes: a larger answer is refused.
    verify, transport: as of `httpx.Client`, for a private certificate authority or a test.
    """

    def __init__(
        self,
        base_url: str | None = None,
        *,
        token: str | settings.TokenSource | None = None,
        token_file: str | os.PathLike[str] | None = None,
        timeout: float = 60.0,
        retries: Retries | None = None,
        max_answer_bytes: int = 64 * 1024 * 1024,
        verify: Any = True,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.base_url = settings.base_url(base_url)
        self._auth = settings.Bearer(settings.token_source(token, token_file))
        self._timeout = timeout
        self._retries = retries or Retries()
        self._most = max_answer_bytes
        self._sleep = sleep
        self._verify = verify
        # certificates take long to read, and plain HTTP needs none
        checks = verify if self.base_url.scheme == "https" else False
        self._http = httpx.Client(verify=checks, transport=transport, headers={"User-Agent": USER_AGENT}, follow_redirects=False)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.base_url)!r})"

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections."""
        self._http.close()

    def _call(
        self,
        operation: Operation[T],
        path: Mapping[str, str | int],
        query: Mapping[str, object],
        body: object,
        key: str | None,
        timeout: float | None,
    ) -> T:
        call = request(operation, path, query, body, key)
        deadline = Deadline(self._timeout if timeout is None else timeout)
        attempt = 0
        while True:
            try:
                return self._attempt(operation, call, deadline)
            except GpuaasError as error:
                wait = self._retries.delay(error, attempt, random.random()) if call.repeatable else None
                if wait is None or wait >= deadline.left():
                    raise
            attempt += 1
            self._sleep(wait)

    def _attempt(self, operation: Operation[T], call: Request, deadline: Deadline) -> T:
        with self._send(call, deadline, deadline.within(self._timeout)) as response:
            body = Body(self._most if response.is_success else MOST_ERROR_BYTES, deadline)
            try:
                for chunk in response.iter_bytes():
                    body.add(chunk)
            except ProtocolError:
                if response.is_success:
                    raise
            return answer(operation, call, response.status_code, response.headers, body.whole())

    @contextmanager
    def _send(self, call: Request, deadline: Deadline, silence: float) -> Iterator[httpx.Response]:
        timeout = httpx.Timeout(deadline.within(silence), connect=deadline.within(CONNECT_SECONDS))
        url = address(self.base_url, call)
        try:
            with self._http.stream(
                call.verb, url, content=call.content, headers=call.headers(), auth=self._auth, timeout=timeout
            ) as response:
                yield response
        except httpx.TimeoutException as error:
            raise CallTimeoutError(f"no answer came in time: {type(error).__name__}", call.key) from error
        except httpx.DecodingError as error:
            raise ProtocolError("the answer is not encoded as it says") from error
        except httpx.HTTPError as error:
            raise TransportError(f"no answer came: {error or type(error).__name__}", call.key) from error

    def _pages(
        self, operation: Operation[Any], path: Mapping[str, str | int], query: Mapping[str, object], items: str, timeout: float | None
    ) -> Iterator[Any]:
        token, seen = "", set[str]()
        while True:
            page = self._call(operation, path, page_query(query, token), None, None, timeout)
            yield from getattr(page, items)
            token = page.next_page_token
            if not token:
                return
            if token in seen:
                raise ProtocolError("the pages of the list have no end: a page token came twice")
            seen.add(token)

    def _watch(
        self, operation: Operation[T], path: Mapping[str, str | int], query: Mapping[str, object], timeout: float | None
    ) -> Iterator[T]:
        watching = Watching(operation, path, query, self._retries, Deadline(timeout))
        while True:
            lost: GpuaasError | None = None
            try:
                for line in self._lines(watching.open(), watching.deadline):
                    yield watching.message(line)
                    if watching.ended:
                        return
            except GpuaasError as error:
                lost = error
            self._sleep(watching.lost(lost, random.random()))

    def _lines(self, call: Request, deadline: Deadline) -> Iterator[bytes]:
        with self._send(call, deadline, SILENCE_SECONDS) as response:
            if not response.is_success:
                body = Body(MOST_ERROR_BYTES, deadline)
                for chunk in response.iter_bytes():
                    body.add(chunk)
                raise refusal(call, response.status_code, response.headers, body.whole())
            lines = Lines()
            for chunk in response.iter_bytes():
                deadline.within(0)
                yield from lines.take(chunk)

    def wait_until_active(self, allocation_id: str, *, timeout: float = 900.0) -> Allocation:
        """Waits until the allocation is active, and returns it. `timeout` is in seconds.

        Raises `AllocationFailedError` with the reason when it failed or was released, `WaitTimeoutError` past the timeout.
        """
        return self._wait(allocation_id, "active", timeout)

    def wait_released(self, allocation_id: str, *, timeout: float = 900.0) -> Allocation:
        """Waits until the allocation is released and its disk proven empty, and returns it. `timeout` is in seconds.

        Raises `AllocationFailedError` with the reason when it failed, `WaitTimeoutError` past the timeout.
        """
        return self._wait(allocation_id, "released", timeout)

    def _wait(self, allocation_id: str, state: AllocationState, timeout: float) -> Allocation:
        deadline = Deadline(timeout)
        last: Allocation | None = None
        path = {"allocation_id": allocation_id}
        while True:
            try:
                # a watch that cannot be had is replaced by looking again and again
                last = self._call(table.GET_ALLOCATION, path, {}, None, None, deadline.within(self._timeout))
                if reached(last, state):
                    return last
                messages: Iterator[WatchAllocationResponse] = self._watch(table.WATCH_ALLOCATION, path, {}, deadline.within(timeout))
                for message in messages:
                    if message.change and message.change.allocation:
                        last = message.change.allocation
                        if reached(last, state):
                            return last
            except (TransportError, ProtocolError, ApiError) as error:
                if deadline.left() <= 0:
                    raise WaitTimeoutError(allocation_id, last) from error
                if last is None or final(error):
                    raise
            self._sleep(max(0.0, min(1.0, deadline.left())))

    def open_terminal(self, allocation_id: str, *, columns: int = 80, rows: int = 24, timeout: float = 30.0) -> Terminal:
        """A shell in the allocation; see `gpuaas.terminal`. Needs the extra `terminal`."""
        from gpuaas.terminal import Terminal

        try:
            ticket = self.create_terminal_session(allocation_id, timeout=timeout)
        except SecretLostError:
            # the answer with the ticket got lost on its way
            ticket = self.create_terminal_session(allocation_id, timeout=timeout)
        return Terminal.open(self.base_url, allocation_id, ticket, columns=columns, rows=rows, timeout=timeout, verify=self._verify)
