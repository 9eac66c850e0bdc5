"""A real HTTP server that plays the API by a script, and both clients against it."""

from __future__ import annotations

import asyncio
import inspect
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from gpuaas import AsyncClient, Client

TOKEN = "a.secret-token.of-tests"


@dataclass
class Reply:
    """One answer of the script."""

    status: int = 200
    body: Any = b""
    headers: dict[str, str] = field(default_factory=dict)
    # takes the connection instead of an answer
    raw: Callable[[Any], None] | None = None


def error(status: int, code: str, reason: str = "", **headers: str) -> Reply:
    """An answer as the API gives it to a call that it refuses."""
    details = [
        {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason, "domain": "gpuaas", "metadata": {"quota": "gpus"}},
        {"@type": "type.googleapis.com/google.rpc.RequestInfo", "request_id": "r-1"},
        {"@type": "type.googleapis.com/google.rpc.BadRequest", "field_violations": [{"field": "sku", "description": "is required"}]},
    ]
    body = {"error": {"code": status, "status": code, "message": "It is refused.", "details": details}}
    return Reply(status, body, {k.replace("_", "-"): v for k, v in headers.items()})


def lines(*messages: Any) -> Reply:
    """A stream that ends after the messages."""
    return Reply(200, b"".join(json.dumps(m).encode() + b"\n" for m in messages), {"Content-Type": "application/x-ndjson"})


def allocation(state: str, **status: Any) -> dict[str, Any]:
    return {"id": "a-1", "status": {"state": state, **status}}


@dataclass
class Seen:
    """A request as it came."""

    verb: str
    path: str
    headers: dict[str, str]
    body: bytes


class Server:
    """Answers each request with the next reply, the last one again and again."""

    def __init__(self) -> None:
        self.replies: list[Reply] = []
        self.seen: list[Seen] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                outer.seen.append(Seen(self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, body))
                reply = outer.replies.pop(0) if len(outer.replies) > 1 else outer.replies[0]
                if reply.raw:
                    self.close_connection = True
                    reply.raw(self.wfile)
                    return
                content = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
                self.send_response(reply.status)
                for name, value in {"Content-Type": "application/json", **reply.headers, "Content-Length": str(len(content))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer

            def log_message(self, *_: object) -> None:
                pass

        class Quiet(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: object) -> None:
                """A client that goes away in the middle is what some tests want."""

        self.http = Quiet(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"
        self.thread = threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self.thread.start()

    def plays(self, *replies: Reply) -> None:
        self.replies = list(replies)

    def close(self) -> None:
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


class Runner:
    """The same call on either client; `slept` has the waits between attempts, which take no time."""

    def __init__(self, kind: str, url: str) -> None:
        self.kind = kind
        self.url = url
        self.slept: list[float] = []

    def __call__(self, use: Callable[[Any], Any], **options: Any) -> Any:
        """What the use returns; an iterator's items as list."""
        options = {"token": TOKEN, **options}
        if self.kind == "sync":
            with Client(self.url, sleep=self.slept.append, **options) as client:
                got = use(client)
                return list(got) if isinstance(got, Iterator) else got
        return asyncio.run(self._async(use, options))

    async def _async(self, use: Callable[[Any], Any], options: dict[str, Any]) -> Any:
        async def sleep(seconds: float) -> None:
            self.slept.append(seconds)

        async with AsyncClient(self.url, sleep=sleep, **options) as client:
            got = use(client)
            if isinstance(got, AsyncIterator):
                return [item async for item in got]
            return await got if inspect.isawaitable(got) else got


@pytest.fixture(params=["sync", "async"])
def run(request: pytest.FixtureRequest, server: Server) -> Runner:
    return Runner(request.param, server.url)
