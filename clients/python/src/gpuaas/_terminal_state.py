"""The terminal protocol without input or output: what to send, and what came. See docs/reference/terminal-protocol.md."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from gpuaas.errors import GpuaasError, plain

SUBPROTOCOL = "gpuaas.terminal.v1"
MOST_INPUT = 16_384
# Header and data of one message of the platform, with room for its JSON.
MOST_MESSAGE = 64 * 1024
_MOST_OFFSET = 2**62
_NORMAL, _PLATFORM_CODES = 1000, 4000
_LONGEST_RETRY = 8.0
_PEACEFUL = {"exited", "closed_by_client"}


class TerminalClosedError(GpuaasError):
    """The terminal ended otherwise than by its shell. `reason` is one of the protocol's, such as `allocation_ended`."""

    def __init__(self, reason: str, message: str = "") -> None:
        self.reason = reason
        super().__init__(f"the terminal is closed: {plain(message or reason)}")


class OutOfStep(Exception):
    """A message does not follow the one before; the connection is given up and the session resumed."""


@dataclass
class Session:
    """One session over as many connections as it takes."""

    allocation_id: str
    ticket: str
    columns: int
    rows: int
    ready: dict[str, Any] | None = None
    received: int = 0
    acknowledged: int = 0
    # input from `confirmed` on that the platform has not confirmed; it is sent up to `sent`
    kept: bytearray = field(default_factory=bytearray)
    confirmed: int = 0
    sent: int = 0
    # output bytes that were lost while the connection was
    lost_bytes: int = 0
    exit_status: int | None = None
    closed: TerminalClosedError | None = None
    # when the connection was lost, and how often it was tried to resume since
    lost_at: float | None = None
    tries: int = 0

    def first(self) -> str:
        """The first message of a connection: the ticket, or where the session goes on."""
        size = {"cols": self.columns, "rows": self.rows}
        if self.ready is None:
            return _json({"type": "attach", "ticket": self.ticket, "allocation_id": self.allocation_id, "term": "xterm-256color", **size})
        known = {name: self.ready.get(name) for name in ("session_id", "resume_token")}
        return _json({"type": "resume", **known, "received": self.received, **size})

    def hear(self, message: str | bytes) -> bytes:
        """Takes a message; returns the output that it holds."""
        if isinstance(message, bytes):
            return self._output(message)
        try:
            told = json.loads(message)
        except (ValueError, RecursionError):
            raise OutOfStep from None
        match told:
            case {"type": "session_ready"}:
                self._begin(told)
            case {"type": "gap", "from": int(begin), "to": int(end)} if begin <= end < _MOST_OFFSET:
                self.lost_bytes += end - begin
                self.received = self.acknowledged = end
            case {"type": "input_ack", "offset": int(offset)} if self.confirmed <= offset <= self.sent:
                del self.kept[: offset - self.confirmed]
                self.confirmed = offset
            case {"type": "exit"}:
                self.exit_status = told.get("status") if isinstance(told.get("status"), int) else None
            case {"type": "closed"}:
                self.closed = TerminalClosedError(str(told.get("reason", "")), str(told.get("message", "")))
            case {"type": str(kind)} if kind not in ("gap", "input_ack"):
                # a later kind of message
                pass
            case _:
                raise OutOfStep
        return b""

    def _begin(self, ready: dict[str, Any]) -> None:
        numbers = [ready.get(name) for name in ("output_offset", "input_offset", "input_window", "resume_seconds")]
        if not all(isinstance(number, int) and 0 <= number < _MOST_OFFSET for number in numbers):
            raise OutOfStep
        if not ready.get("resumed"):
            self.received = self.acknowledged = ready["output_offset"]
        has = ready["input_offset"]
        if not self.confirmed <= has <= self.confirmed + len(self.kept):
            raise OutOfStep
        self.ready = ready
        self.sent = has
        self.lost_at, self.tries = None, 0

    def _output(self, message: bytes) -> bytes:
        if len(message) <= 8 or struct.unpack(">Q", message[:8])[0] != self.received or self.ready is None:
            raise OutOfStep
        self.received += len(message) - 8
        return message[8:]

    def frames(self) -> Iterator[bytes]:
        """The input that may be sent now."""
        window = self.ready["input_window"] if self.ready else 0
        while (end := min(self.confirmed + len(self.kept), self.confirmed + window, self.sent + MOST_INPUT)) > self.sent:
            begin = self.sent
            self.sent = end
            yield struct.pack(">Q", begin) + bytes(self.kept[begin - self.confirmed : end - self.confirmed])

    @property
    def unsent(self) -> bool:
        """Whether input waits for the platform to take more."""
        return self.sent < self.confirmed + len(self.kept)

    def acknowledgement(self) -> str | None:
        """Tells the platform what was taken, when there is something to tell."""
        if self.received <= self.acknowledged:
            return None
        self.acknowledged = self.received
        return _json({"type": "ack", "received": self.received})

    def resize(self, columns: int, rows: int) -> str:
        """The window's new size."""
        self.columns, self.rows = columns, rows
        return _json({"type": "resize", "cols": columns, "rows": rows})

    def ended(self, code: int) -> bool:
        """After a connection closed with the code: whether the session has ended. Fails when it did so otherwise than by its shell."""
        final = code == _NORMAL or code >= _PLATFORM_CODES
        if final and self.closed and self.closed.reason != "silent":
            if self.closed.reason in _PEACEFUL:
                return True
            raise self.closed
        if self.ready is None:
            raise self.closed or TerminalClosedError("unreachable", "the terminal could not be opened")
        self.closed = None
        return False

    def wait(self, now: float, first: float) -> float:
        """Seconds until the next try to resume; fails once the shell is gone."""
        self.lost_at = now if self.lost_at is None else self.lost_at
        if self.ready is None or now - self.lost_at > self.ready["resume_seconds"]:
            raise TerminalClosedError("not_resumed", "the connection was lost for too long; the shell is gone")
        self.tries += 1
        return float(min(first * 2.0 ** min(self.tries - 1, 16), _LONGEST_RETRY))


def _json(message: dict[str, Any]) -> str:
    return json.dumps(message)
