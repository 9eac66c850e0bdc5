"""The asynchronous client; the same as `_client` with `await`."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import httpx

from gpuaas import _settings as settings
from gpuaas import _table as table
from gpuaas._async_operations import AsyncOperations
from gpuaas._operation import Operation, Request, address, page_query, request
from gpuaas._policy import Body, Deadline, Retries, answer, refusal
from gpuaas._waiting import final, reached
from gpuaas._watching import Lines, Watching
from gpuaas.errors import ApiError, CallTimeoutError, GpuaasError, ProtocolError, SecretLostError, TransportError, WaitTimeoutError
from gpuaas.models import Allocation, AllocationState

if TYPE_CHECKING:
    from gpuaas.terminal import AsyncTerminal

T = TypeVar("T")
USER_AGENT = "gpuaas-python/0.1.0"
CONNECT_SECONDS = 10.0
# A stream has a heartbeat more often than this.
SILENCE_SECONDS = 60.0
# Body of an error that is read.
MOST_ERROR_BYTES = 1024 * 1024


class AsyncClient(AsyncOperations):
    """The API with one token, for one event loop. A call that is cancelled may have had its effect.

    base_url: address of the API; else the environment's `GPUAAS_API`.
    token: the token, or a function that returns the current one; else `GPUAAS_TOKEN`.
    token_file: a file with the token, read for every call, so that a renewed one is used; else `GPUAAS_TOKEN_FILE`.
    timeout: seconds for a call with all its attempts. A method's own `timeout` goes before it.
    max_answer_bytes: a larger answer is refused.
    verify, transport: as of `httpx.AsyncClient`, for a private certificate authority or a test.
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
        transport: httpx.AsyncBaseTransport | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
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
        self._http = httpx.AsyncClient(verify=checks, transport=transport, headers={"User-Agent": USER_AGENT}, follow_redirects=False)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.base_url)!r})"

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Closes the connections."""
        await self._http.aclose()

    async def _call(
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
                return await self._attempt(operation, call, deadline)
            except GpuaasError as error:
                wait = self._retries.delay(error, attempt, random.random()) if call.repeatable else None
                if wait is None or wait >= deadline.left():
                    raise
            attempt += 1
            await self._sleep(wait)

    async def _attempt(self, operation: Operation[T], call: Request, deadline: Deadline) -> T:
        async with self._send(call, deadline, deadline.within(self._timeout)) as response:
            body = Body(self._most if response.is_success else MOST_ERROR_BYTES, deadline)
            try:
                async for chunk in response.aiter_bytes():
                    body.add(chunk)
            except ProtocolError:
                if response.is_success:
                    raise
            return answer(operation, call, response.status_code, response.headers, body.whole())

    @asynccontextmanager
    async def _send(self, call: Request, deadline: Deadline, silence: float) -> AsyncIterator[httpx.Response]:
        timeout = httpx.Timeout(deadline.within(silence), connect=deadline.within(CONNECT_SECONDS))
        url = address(self.base_url, call)
        try:
            async with self._http.stream(
                call.verb, url, content=call.content, headers=call.headers(), auth=self._auth, timeout=timeout
            ) as response:
                yield response
        except httpx.TimeoutException as error:
            raise CallTimeoutError(f"no answer came in time: {type(error).__name__}", call.key) from error
        except httpx.DecodingError as error:
            raise ProtocolError("the answer is not encoded as it says") from error
        except httpx.HTTPError as error:
            raise TransportError(f"no answer came: {error or type(error).__name__}", call.key) from error

    async def _pages(
        self, operation: Operation[Any], path: Mapping[str, str | int], query: Mapping[str, object], items: str, timeout: float | None
    ) -> AsyncGenerator[Any, None]:
        token, seen = "", set[str]()
        while True:
            page = await self._call(operation, path, page_query(query, token), None, None, timeout)
            for item in getattr(page, items):
                yield item
            token = page.next_page_token
            if not token:
                return
            if token in seen:
                raise ProtocolError("the pages of the list have no end: a page token came twice")
            seen.add(token)

    async def _watch(
        self, operation: Operation[T], path: Mapping[str, str | int], query: Mapping[str, object], timeout: float | None
    ) -> AsyncGenerator[T, None]:
        watching = Watching(operation, path, query, self._retries, Deadline(timeout))
        while True:
            lost: GpuaasError | None = None
            try:
                async with aclosing(self._lines(watching.open(), watching.deadline)) as lines:
                    async for line in lines:
                        yield watching.message(line)
                        if watching.ended:
                            return
            except GpuaasError as error:
                lost = error
            await self._sleep(watching.lost(lost, random.random()))

    async def _lines(self, call: Request, deadline: Deadline) -> AsyncGenerator[bytes, None]:
        async with self._send(call, deadline, SILENCE_SECONDS) as response:
            if not response.is_success:
                body = Body(MOST_ERROR_BYTES, deadline)
                async for chunk in response.aiter_bytes():
                    body.add(chunk)
                raise refusal(call, response.status_code, response.headers, body.whole())
            lines = Lines()
            async for chunk in response.aiter_bytes():
                deadline.within(0)
                for line in lines.take(chunk):
                    yield line

    async def wait_until_active(self, allocation_id: str, *, timeout: float = 900.0) -> Allocation:
        """Waits until the allocation is active, and returns it. `timeout` is in seconds.

        Raises `AllocationFailedError` with the reason when it failed or was released, `WaitTimeoutError` past the timeout.
        """
        return await self._wait(allocation_id, "active", timeout)

    async def wait_released(self, allocation_id: str, *, timeout: float = 900.0) -> Allocation:
        """Waits until the allocation is released and its disk proven empty, and returns it. `timeout` is in seconds.

        Raises `AllocationFailedError` with the reason when it failed, `WaitTimeoutError` past the timeout.
        """
        return await self._wait(allocation_id, "released", timeout)

    async def _wait(self, allocation_id: str, state: AllocationState, timeout: float) -> Allocation:
        deadline = Deadline(timeout)
        last: Allocation | None = None
        path = {"allocation_id": allocation_id}
        while True:
            try:
                # a watch that cannot be had is replaced by looking again and again
                last = await self._call(table.GET_ALLOCATION, path, {}, None, None, deadline.within(self._timeout))
                if reached(last, state):
                    return last
                async with aclosing(self._watch(table.WATCH_ALLOCATION, path, {}, deadline.within(timeout))) as messages:
                    async for message in messages:
                        if message.change and message.change.allocation:
                            last = message.change.allocation
                            if reached(last, state):
                                return last
            except (TransportError, ProtocolError, ApiError) as error:
                if deadline.left() <= 0:
                    raise WaitTimeoutError(allocation_id, last) from error
                if last is None or final(error):
                    raise
            await self._sleep(max(0.0, min(1.0, deadline.left())))

    async def open_terminal(self, allocation_id: str, *, columns: int = 80, rows: int = 24, timeout: float = 30.0) -> AsyncTerminal:
        """A shell in the allocation; see `gpuaas.terminal`. Needs the extra `terminal`."""
        from gpuaas.terminal import AsyncTerminal

        try:
            ticket = await self.create_terminal_session(allocation_id, timeout=timeout)
        except SecretLostError:
            # the answer with the ticket got lost on its way
            ticket = await self.create_terminal_session(allocation_id, timeout=timeout)
        return await AsyncTerminal.open(
            self.base_url, allocation_id, ticket, columns=columns, rows=rows, timeout=timeout, verify=self._verify
        )
