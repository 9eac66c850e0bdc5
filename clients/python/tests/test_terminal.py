"""Terminals against a WebSocket server that plays the platform by a script."""

from __future__ import annotations

import asyncio
import contextlib
import json
import struct
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from websockets.sync.server import Server as WebSocketServer
from websockets.sync.server import ServerConnection, serve
from websockets.typing import Subprotocol

from gpuaas import AsyncClient, CallTimeoutError, Client, terminal
from gpuaas._settings import base_url
from gpuaas.terminal import TerminalClosedError
from tests.conftest import TOKEN, Reply, Server

Script = Callable[[ServerConnection, dict[str, Any]], None]


def ready(**changes: Any) -> str:
    told = {"type": "session_ready", "session_id": "s", "resumed": False, "resume_token": "r1", "resume_seconds": 60}
    return json.dumps({**told, "output_offset": 0, "input_offset": 0, "output_window": 262144, "input_window": 8, **changes})


def output(offset: int, data: bytes) -> bytes:
    return struct.pack(">Q", offset) + data


def typed(socket: ServerConnection) -> bytes:
    """The next input; acknowledgements come between."""
    while isinstance(message := socket.recv(), str):
        assert json.loads(message)["type"] == "ack"
    return message


def end(socket: ServerConnection, reason: str, code: int = 1000) -> None:
    socket.send(json.dumps({"type": "closed", "reason": reason, "message": f"It is {reason}."}))
    socket.close(code)


class Platform:
    """Plays one script per connection."""

    def __init__(self) -> None:
        self.scripts: list[Script] = []
        self.firsts: list[dict[str, Any]] = []
        self.server: WebSocketServer = serve(
            self.handle, "127.0.0.1", 0, subprotocols=[Subprotocol("gpuaas.terminal.v1")], compression=None, close_timeout=1
        )
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    def handle(self, socket: ServerConnection) -> None:
        first = json.loads(socket.recv())
        self.firsts.append(first)
        self.scripts.pop(0)(socket, first)

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join()


@pytest.fixture
def platform() -> Iterator[Platform]:
    platform = Platform()
    yield platform
    platform.close()


@pytest.fixture(params=["sync", "async"])
def use(request: pytest.FixtureRequest, server: Server, platform: Platform, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Opens a terminal and does the steps, each a method and its arguments; returns their results and the terminal."""
    monkeypatch.setattr(terminal, "_FIRST_RETRY", 0.01)
    server.plays(Reply(200, {"session_id": "s", "ticket": "t" * 64, "websocket_path": "/api/v1/terminal"}))
    port = platform.server.socket.getsockname()[1]
    real = terminal._address
    monkeypatch.setattr(terminal, "_address", lambda base, path: real(base.copy_with(port=port), path))

    def sync(*steps: tuple[Any, ...]) -> tuple[list[Any], Any]:
        with Client(server.url, token=TOKEN) as client, client.open_terminal("a-1", columns=90, rows=30) as opened:
            return [getattr(opened, name)(*given) for name, *given in steps], opened

    async def story(steps: tuple[tuple[Any, ...], ...]) -> tuple[list[Any], Any]:
        async with AsyncClient(server.url, token=TOKEN) as client, await client.open_terminal("a-1", columns=90, rows=30) as opened:
            return [await getattr(opened, name)(*given) for name, *given in steps], opened

    return sync if request.param == "sync" else lambda *steps: asyncio.run(story(steps))


def shell(socket: ServerConnection, _: dict[str, Any]) -> None:
    """Echoes the input, confirms it piece by piece, and ends at `exit`."""
    socket.send(ready())
    at = 0
    told = b""
    while not told.endswith(b"exit\n"):
        message = typed(socket)
        assert struct.unpack(">Q", message[:8])[0] == at and len(message) <= 8 + 8, "within the window"
        told += message[8:]
        socket.send(json.dumps({"type": "input_ack", "offset": at + len(message) - 8}))
        socket.send(output(at, message[8:]))
        at += len(message) - 8
    socket.send('{"type":"exit","status":3}')
    end(socket, "exited")


def test_input_and_output_until_the_shell_ends(use: Callable[..., Any], platform: Platform) -> None:
    platform.scripts = [shell]
    got, opened = use(
        ("send", "echo a long line and more\n"), ("read_until", b"long "), ("send", b"exit\n"), ("read_until", b"never"), ("read",)
    )
    assert got == [None, b"echo a long ", None, b"line and more\nexit\n", b""]
    assert opened.exit_status == 3
    [first] = platform.firsts
    assert first == {"type": "attach", "ticket": "t" * 64, "allocation_id": "a-1", "cols": 90, "rows": 30, "term": "xterm-256color"}


def test_output_is_acknowledged_and_the_size_is_told(use: Callable[..., Any], platform: Platform) -> None:
    heard: list[Any] = []

    def script(socket: ServerConnection, _: dict[str, Any]) -> None:
        socket.send(ready())
        socket.send(output(0, b"abc"))
        heard.extend(json.loads(socket.recv()) for _ in range(2))
        end(socket, "exited")

    platform.scripts = [script]
    use(("read",), ("resize", 100, 40), ("read",))
    assert {"type": "ack", "received": 3} in heard and {"type": "resize", "cols": 100, "rows": 40} in heard


def test_a_lost_connection_is_resumed_and_input_is_sent_once(use: Callable[..., Any], platform: Platform) -> None:
    def first(socket: ServerConnection, _: dict[str, Any]) -> None:
        socket.send(ready())
        assert typed(socket) == output(0, b"abcdef")
        socket.send(output(0, b"out"))
        # the connection breaks without a close frame
        socket.socket.shutdown(2)

    def second(socket: ServerConnection, _: dict[str, Any]) -> None:
        socket.send(ready(resumed=True, resume_token="r2", input_offset=4, output_offset=10))
        socket.send('{"type":"gap","from":3,"to":10}')
        assert typed(socket) == output(4, b"ef")
        socket.send('{"type":"input_ack","offset":6}')
        socket.send(output(10, b"more"))
        end(socket, "exited")

    platform.scripts = [first, second]
    got, opened = use(("send", b"abcdef"), ("read_until", b"never"))
    assert got[1] == b"outmore" and opened.lost_bytes == 7
    assert platform.firsts[1] == {"type": "resume", "session_id": "s", "resume_token": "r1", "received": 3, "cols": 90, "rows": 30}


@pytest.mark.parametrize(("code", "reason"), [(4410, "allocation_ended"), (4401, "ticket_refused"), (4408, "idle")])
def test_an_end_that_is_not_the_shells_is_an_error(use: Callable[..., Any], platform: Platform, code: int, reason: str) -> None:
    def script(socket: ServerConnection, _: dict[str, Any]) -> None:
        socket.send(ready())
        end(socket, reason, code)

    platform.scripts = [script]
    with pytest.raises(TerminalClosedError) as caught:
        use(("read",))
    assert caught.value.reason == reason


def test_a_refused_ticket_is_an_error(use: Callable[..., Any], platform: Platform) -> None:
    platform.scripts = [lambda socket, _: end(socket, "ticket_refused", 4401)]
    with pytest.raises(TerminalClosedError, match="ticket_refused"):
        use()


@pytest.mark.parametrize(
    "rubbish",
    ["{", "[]", "{}", '{"type":"input_ack","offset":99}', '{"type":"gap","from":9,"to":1}', b"", b"short", output(5, b"x"), "[" * 50_000],
)
def test_a_message_out_of_step_resumes(use: Callable[..., Any], platform: Platform, rubbish: Any) -> None:
    def first(socket: ServerConnection, _: dict[str, Any]) -> None:
        socket.send(ready())
        socket.send(rubbish)
        for _message in socket:
            pass

    def second(socket: ServerConnection, _: dict[str, Any]) -> None:
        socket.send(ready(resumed=True))
        socket.send(output(0, b"on"))
        end(socket, "exited")

    platform.scripts = [first, second]
    assert use(("read",))[0] == [b"on"]


@pytest.mark.parametrize("bad", [{"input_window": "many"}, {"input_offset": 5}, {"output_offset": -1}, {"resume_seconds": None}])
def test_a_session_that_makes_no_sense_is_refused(use: Callable[..., Any], platform: Platform, bad: dict[str, Any]) -> None:
    def script(socket: ServerConnection, _: dict[str, Any]) -> None:
        socket.send(ready(**bad))
        for _message in socket:
            pass

    platform.scripts = [script]
    with pytest.raises(TerminalClosedError):
        use()


def test_silence_ends_a_read_with_a_timeout(use: Callable[..., Any], platform: Platform) -> None:
    def script(socket: ServerConnection, _: dict[str, Any]) -> None:
        socket.send(ready())
        for _message in socket:
            pass

    platform.scripts = [script]
    with pytest.raises(CallTimeoutError):
        use(("read", 0.05))


def test_a_read_ends_in_time_while_the_connection_is_lost(
    use: Callable[..., Any], platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal, "_FIRST_RETRY", 3600)

    def first(socket: ServerConnection, _: dict[str, Any]) -> None:
        socket.send(ready())
        socket.close(1011)

    platform.scripts = [first]
    begun = time.monotonic()
    with pytest.raises(CallTimeoutError):
        use(("read", 0.3))
    assert time.monotonic() - begun < 5


def test_reads_that_are_shorter_than_the_pause_resume_all_the_same(
    use: Callable[..., Any], platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal, "_FIRST_RETRY", 0.3)

    def patiently(opened: Any) -> bytes:
        while True:
            with contextlib.suppress(CallTimeoutError):
                got: bytes = opened.read(0.05)
                return got

    async def patiently_async(opened: Any) -> bytes:
        while True:
            with contextlib.suppress(CallTimeoutError):
                got: bytes = await opened.read(0.05)
                return got

    monkeypatch.setattr(terminal.Terminal, "read_patiently", patiently, raising=False)
    monkeypatch.setattr(terminal.AsyncTerminal, "read_patiently", patiently_async, raising=False)

    def first(socket: ServerConnection, _: dict[str, Any]) -> None:
        socket.send(ready())
        socket.close(1011)

    def second(socket: ServerConnection, _: dict[str, Any]) -> None:
        socket.send(ready(resumed=True))
        socket.send(output(0, b"on"))
        end(socket, "exited")

    platform.scripts = [first, second]
    assert use(("read_patiently",))[0] == [b"on"]


def test_a_platform_that_closes_again_and_again_is_given_up(use: Callable[..., Any], platform: Platform) -> None:
    def first(socket: ServerConnection, _: dict[str, Any]) -> None:
        socket.send(ready(resume_seconds=0))
        socket.close(1011)

    platform.scripts = [first] + 100 * [lambda socket, _: socket.close(1011)]
    with pytest.raises(TerminalClosedError) as caught:
        use(("read",))
    assert caught.value.reason == "not_resumed"


def test_closing_tells_the_platform(use: Callable[..., Any], platform: Platform) -> None:
    heard: list[Any] = []

    def script(socket: ServerConnection, _: dict[str, Any]) -> None:
        socket.send(ready())
        heard.extend(socket)

    platform.scripts = [script]
    use()
    platform.close()
    assert heard == ['{"type":"close"}']


def test_a_ticket_whose_answer_was_lost_is_asked_for_once_more(server: Server, use: Callable[..., Any], platform: Platform) -> None:
    ticket = {"session_id": "s", "ticket": "t" * 64, "websocket_path": "/api/v1/terminal"}
    server.plays(Reply(raw=lambda _: None), Reply(200, {**ticket, "ticket": ""}), Reply(200, ticket))
    platform.scripts = [shell]
    got, _opened = use(("send", "exit\n"), ("read_until", b"never"))
    assert got == [None, b"exit\n"]
    keys = [seen.headers["x-idempotency-key"] for seen in server.seen]
    assert keys[0] == keys[1] != keys[2]


@pytest.mark.parametrize("path", ["", "//evil.example.com/x", "https://evil.example.com/x"])
def test_a_ticket_cannot_lead_to_another_host(server: Server, path: str) -> None:
    server.plays(Reply(200, {"ticket": "t", "websocket_path": path}))
    with Client(server.url, token=TOKEN) as client, pytest.raises(TerminalClosedError):
        client.open_terminal("a-1")


@pytest.mark.parametrize(
    ("base", "address"),
    [
        ("https://api.example.com", "wss://api.example.com/api/v1/terminal"),
        ("https://example.com/gpus/", "wss://example.com/gpus/api/v1/terminal"),
        ("http://127.0.0.1:7080", "ws://127.0.0.1:7080/api/v1/terminal"),
    ],
)
def test_a_terminal_is_where_the_api_is(base: str, address: str) -> None:
    assert terminal._address(base_url(base), "/api/v1/terminal") == address


@pytest.mark.parametrize(
    "path", ["/https://evil.example.com/x", "/wss:evil.example.com", "/.//evil.example.com/x", "/..//evil.example.com/x"]
)
def test_no_path_of_a_ticket_leads_to_another_host(path: str) -> None:
    for base in ("https://api.example.com", "https://api.example.com/gpus"):
        assert terminal._address(base_url(base), path).startswith("wss://api.example.com/"), path
