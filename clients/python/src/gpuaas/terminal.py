"""A shell in an allocation: `Client.open_terminal` and `AsyncClient.open_terminal`. Needs the extra `terminal`.

A lost connection is resumed without loss of input; `lost_bytes` says how much output was lost, which happens only when
the connection was gone for long while much was written.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from typing import Any

import httpx

from gpuaas._terminal_state import MOST_MESSAGE, SUBPROTOCOL, OutOfStep, Session, TerminalClosedError
from gpuaas.errors import CallTimeoutError, UsageError
from gpuaas.models import CreateTerminalSessionResponse

try:
    from websockets.asyncio.client import ClientConnection as AsyncConnection
    from websockets.asyncio.client import connect as connect_async
    from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidURI
    from websockets.sync.client import ClientConnection, connect
    from websockets.typing import Subprotocol
except ImportError as error:
    raise UsageError("a terminal needs the package websockets: pip install 'gpuaas[terminal]'") from error

__all__ = ["AsyncTerminal", "Terminal", "TerminalClosedError"]
_FIRST_RETRY = 0.5
_NO_CODE = 1006


def _address(base: httpx.URL, path: str) -> str:
    if not path.startswith("/") or path.startswith("//"):
        raise TerminalClosedError("protocol_error", "the platform named no address for the terminal")
    # below the address of the API, which may have a path of its own; without the dot, "/https://…" led to another host
    whole = base.join("." + path)
    return str(whole.copy_with(scheme="wss" if base.scheme == "https" else "ws"))


def _options(base: httpx.URL, verify: Any, timeout: float) -> dict[str, Any]:
    options: dict[str, Any] = {
        "subprotocols": [Subprotocol(SUBPROTOCOL)],
        "open_timeout": timeout,
        "max_size": MOST_MESSAGE,
        "compression": None,
    }
    if base.scheme == "https" and isinstance(verify, ssl.SSLContext):
        options["ssl"] = verify
    return options


def _code(error: BaseException) -> int:
    return error.rcvd.code if isinstance(error, ConnectionClosed) and error.rcvd else _NO_CODE


class Terminal:
    """A shell. Iterate for its output, until it ends; `send` for its input."""

    def __init__(self, session: Session, url: str, options: dict[str, Any]) -> None:
        self._session = session
        self._url = url
        self._options = options
        self._stack = ExitStack()
        self._socket: ClientConnection | None = None
        self._pending: deque[bytes] = deque()
        self._over = False
        # when it is tried again to resume
        self._retry_at: float | None = None

    @classmethod
    def open(
        cls,
        base: httpx.URL,
        allocation_id: str,
        ticket: CreateTerminalSessionResponse,
        *,
        columns: int = 80,
        rows: int = 24,
        timeout: float = 30.0,
        verify: Any = True,
    ) -> Terminal:
        """Opens the terminal of a ticket."""
        session = Session(allocation_id, ticket.ticket, columns, rows)
        terminal = cls(session, _address(base, ticket.websocket_path), _options(base, verify, timeout))
        terminal._connect()
        deadline = time.monotonic() + timeout
        while session.ready is None:
            terminal._pump(deadline)
        return terminal

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def exit_status(self) -> int | None:
        """The shell's, once it has ended by itself."""
        return self._session.exit_status

    @property
    def lost_bytes(self) -> int:
        """Output that was lost."""
        return self._session.lost_bytes

    def send(self, data: bytes | str, *, timeout: float = 60.0) -> None:
        """Types the data; returns when the platform has been sent all of it."""
        self._session.kept += data.encode() if isinstance(data, str) else data
        deadline = time.monotonic() + timeout
        self._flush()
        while self._session.unsent and not self._over:
            self._pump(deadline)

    def read(self, timeout: float | None = None) -> bytes:
        """The next output; empty when the shell has ended. Raises `CallTimeoutError` when none comes in time."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self._pending and not self._over:
            self._pump(deadline)
        return self._pending.popleft() if self._pending else b""

    def read_until(self, end: bytes, timeout: float = 60.0, most: int = 16 * 1024 * 1024) -> bytes:
        """The output up to and with `end`, or all of it when the shell ends before; what follows is read later."""
        deadline, seen = time.monotonic() + timeout, bytearray()
        while end not in seen and len(seen) < most:
            chunk = self.read(max(0.0, deadline - time.monotonic()))
            if not chunk:
                return bytes(seen)
            seen += chunk
        before, found, after = bytes(seen).partition(end)
        if after:
            self._pending.appendleft(after)
        return before + found

    def __iter__(self) -> Iterator[bytes]:
        while chunk := self.read():
            yield chunk

    def resize(self, columns: int, rows: int) -> None:
        """The window has a new size."""
        self._say(self._session.resize(columns, rows))

    def close(self) -> None:
        """Ends the shell."""
        if not self._over:
            self._over = True
            self._say('{"type":"close"}')
        if self._socket:
            self._stack.close()
            self._socket = None

    def _connect(self) -> None:
        try:
            self._socket = self._stack.enter_context(connect(self._url, **self._options))
            self._socket.send(self._session.first())
        except (OSError, InvalidHandshake, InvalidURI, ConnectionClosed, EOFError) as error:
            self._socket = None
            if self._session.ready is None:
                raise TerminalClosedError("unreachable", f"the terminal could not be opened: {error}") from error

    def _pump(self, deadline: float | None) -> None:
        """Takes one message of the platform."""
        try:
            if self._socket is None:
                raise OutOfStep
            if not self._pending and (told := self._session.acknowledgement()):
                self._say(told)
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise CallTimeoutError("the terminal wrote nothing in time")
            output = self._session.hear(self._socket.recv(timeout=left))
        except CallTimeoutError:
            raise
        except TimeoutError:
            raise CallTimeoutError("the terminal wrote nothing in time") from None
        except (ConnectionClosed, OutOfStep, OSError) as error:
            return self._resume(_code(error), deadline)
        if output:
            self._pending.append(output)
        self._flush()

    def _resume(self, code: int, deadline: float | None) -> None:
        """Connects again; what is not done by the deadline goes on with the next call."""
        if self._socket:
            self._stack.close()
            self._socket = None
        if self._session.ended(code):
            self._over = True
            return
        while self._socket is None:
            now = time.monotonic()
            if self._retry_at is None:
                self._retry_at = now + self._session.wait(now, _FIRST_RETRY)
            until = self._retry_at if deadline is None else min(self._retry_at, deadline)
            time.sleep(max(0.0, until - now))
            if until < self._retry_at:
                raise CallTimeoutError("the terminal did not come back in time")
            self._retry_at = None
            self._connect()

    def _flush(self) -> None:
        try:
            for frame in self._session.frames():
                if self._socket:
                    self._socket.send(frame)
        except ConnectionClosed:
            # the next message is the end of the connection; what was not taken is sent after the resume
            pass

    def _say(self, message: str) -> None:
        try:
            if self._socket:
                self._socket.send(message)
        except ConnectionClosed:
            # what came before the end, and why it is the end, is still to be read
            pass


class AsyncTerminal:
    """A shell, for asyncio. Iterate for its output, until it ends; `send` for its input."""

    def __init__(self, session: Session, url: str, options: dict[str, Any]) -> None:
        self._session = session
        self._url = url
        self._options = options
        self._socket: AsyncConnection | None = None
        self._pending: deque[bytes] = deque()
        self._over = False
        # when it is tried again to resume
        self._retry_at: float | None = None

    @classmethod
    async def open(
        cls,
        base: httpx.URL,
        allocation_id: str,
        ticket: CreateTerminalSessionResponse,
        *,
        columns: int = 80,
        rows: int = 24,
        timeout: float = 30.0,
        verify: Any = True,
    ) -> AsyncTerminal:
        """Opens the terminal of a ticket."""
        session = Session(allocation_id, ticket.ticket, columns, rows)
        terminal = cls(session, _address(base, ticket.websocket_path), _options(base, verify, timeout))
        await terminal._connect()
        deadline = time.monotonic() + timeout
        while session.ready is None:
            await terminal._pump(deadline)
        return terminal

    async def __aenter__(self) -> AsyncTerminal:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def exit_status(self) -> int | None:
        """The shell's, once it has ended by itself."""
        return self._session.exit_status

    @property
    def lost_bytes(self) -> int:
        """Output that was lost."""
        return self._session.lost_bytes

    async def send(self, data: bytes | str, *, timeout: float = 60.0) -> None:
        """Types the data; returns when the platform has been sent all of it."""
        self._session.kept += data.encode() if isinstance(data, str) else data
        deadline = time.monotonic() + timeout
        await self._flush()
        while self._session.unsent and not self._over:
            await self._pump(deadline)

    async def read(self, timeout: float | None = None) -> bytes:
        """The next output; empty when the shell has ended. Raises `CallTimeoutError` when none comes in time."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self._pending and not self._over:
            await self._pump(deadline)
        return self._pending.popleft() if self._pending else b""

    async def read_until(self, end: bytes, timeout: float = 60.0, most: int = 16 * 1024 * 1024) -> bytes:
        """The output up to and with `end`, or all of it when the shell ends before; what follows is read later."""
        deadline, seen = time.monotonic() + timeout, bytearray()
        while end not in seen and len(seen) < most:
            chunk = await self.read(max(0.0, deadline - time.monotonic()))
            if not chunk:
                return bytes(seen)
            seen += chunk
        before, found, after = bytes(seen).partition(end)
        if after:
            self._pending.appendleft(after)
        return before + found

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            chunk = await self.read()
            if not chunk:
                return
            yield chunk

    async def resize(self, columns: int, rows: int) -> None:
        """The window has a new size."""
        await self._say(self._session.resize(columns, rows))

    async def close(self) -> None:
        """Ends the shell."""
        if not self._over:
            self._over = True
            await self._say('{"type":"close"}')
        if self._socket:
            await self._socket.close()
            self._socket = None

    async def _connect(self) -> None:
        try:
            self._socket = await connect_async(self._url, **self._options)
            await self._socket.send(self._session.first())
        except (OSError, InvalidHandshake, InvalidURI, ConnectionClosed, EOFError) as error:
            self._socket = None
            if self._session.ready is None:
                raise TerminalClosedError("unreachable", f"the terminal could not be opened: {error}") from error

    async def _pump(self, deadline: float | None) -> None:
        """Takes one message of the platform."""
        try:
            if self._socket is None:
                raise OutOfStep
            if not self._pending and (told := self._session.acknowledgement()):
                await self._say(told)
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise CallTimeoutError("the terminal wrote nothing in time")
            output = self._session.hear(await asyncio.wait_for(self._socket.recv(), left))
        except CallTimeoutError:
            raise
        except (TimeoutError, asyncio.TimeoutError):
            raise CallTimeoutError("the terminal wrote nothing in time") from None
        except (ConnectionClosed, OutOfStep, OSError) as error:
            return await self._resume(_code(error), deadline)
        if output:
            self._pending.append(output)
        await self._flush()

    async def _resume(self, code: int, deadline: float | None) -> None:
        """Connects again; what is not done by the deadline goes on with the next call."""
        if self._socket:
            await self._socket.close()
            self._socket = None
        if self._session.ended(code):
            self._over = True
            return
        while self._socket is None:
            now = time.monotonic()
            if self._retry_at is None:
                self._retry_at = now + self._session.wait(now, _FIRST_RETRY)
            until = self._retry_at if deadline is None else min(self._retry_at, deadline)
            await asyncio.sleep(max(0.0, until - now))
            if until < self._retry_at:
                raise CallTimeoutError("the terminal did not come back in time")
            self._retry_at = None
            await self._connect()

    async def _flush(self) -> None:
        try:
            for frame in self._session.frames():
                if self._socket:
                    await self._socket.send(frame)
        except ConnectionClosed:
            # the next message is the end of the connection; what was not taken is sent after the resume
            pass

    async def _say(self, message: str) -> None:
        try:
            if self._socket:
                await self._socket.send(message)
        except ConnectionClosed:
            # what came before the end, and why it is the end, is still to be read
            pass
