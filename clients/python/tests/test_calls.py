"""One call: what is sent, when it is tried again, what an answer becomes."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import socket
import struct
import threading
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gpuaas import (
    ApiError,
    AsyncClient,
    CallTimeoutError,
    Client,
    ProtocolError,
    Retries,
    TransportError,
    UsageError,
    _once,
    _table,
    errors,
    models,
    reasons,
)
from gpuaas._operation import Operation
from tests.conftest import TOKEN, Reply, Runner, Server, allocation, error


def launch(client: Any, **changes: Any) -> Any:
    given = {"name": "a", "region_code": "lab-1", "sku": "s", "gpu_count": 1, "image": "i", "ssh_public_keys": ["k"]}
    return client.create_allocation(**{**given, **changes})


def test_a_call_sends_what_it_is_given_and_returns_a_model(server: Server, run: Runner) -> None:
    server.plays(
        Reply(200, {**allocation("active"), "metadata": {"revision": "7", "create_time": "2026-01-02T03:04:05.123456789Z"}, "later": 1})
    )
    got = run(lambda c: launch(c, labels={"a": "b"}, wait=models.Wait(deadline=datetime(2030, 1, 1, tzinfo=timezone.utc))))
    assert (got.id, got.status.state, got.status.failure) == ("a-1", "active", None)
    assert got.metadata.revision == 7
    assert got.metadata.create_time == datetime(2026, 1, 2, 3, 4, 5, 123456, tzinfo=timezone.utc)
    [seen] = server.seen
    assert (seen.verb, seen.path) == ("POST", "/api/v1/allocations")
    assert seen.headers["authorization"] == f"Bearer {TOKEN}"
    sent = json.loads(seen.body)
    assert sent["wait"] == {"deadline": "2030-01-01T00:00:00Z"} and sent["labels"] == {"a": "b"}
    assert "project_id" not in sent and "validate_only" not in sent


def test_queries_and_names_are_encoded(server: Server, run: Runner) -> None:
    server.plays(Reply(200, {}))
    run(lambda c: c.list_allocations(project_id="a&b=c ü", include_ended=True, page_size=3))
    run(lambda c: c.get_allocation("../admin/nodes?x#y:z ü"))
    assert server.seen[0].path == "/api/v1/allocations?project_id=a%26b%3Dc%20%C3%BC&page_size=3&include_ended=true".replace("%20", "+")
    assert server.seen[1].path == "/api/v1/allocations/..%2Fadmin%2Fnodes%3Fx%23y%3Az%20%C3%BC"


def test_a_number_stands_in_an_address(server: Server, run: Runner) -> None:
    server.plays(Reply(200, {}))
    run(lambda c: c.deactivate_partition("n-1", 0, reason="left over"))
    assert "/n-1" in server.seen[0].path and "/0" in server.seen[0].path, server.seen[0].path


@pytest.mark.parametrize("name", ["", ".", "..", "\ud800"])
def test_a_name_that_could_reach_another_route_is_refused(server: Server, run: Runner, name: str) -> None:
    with pytest.raises(UsageError):
        run(lambda c: c.get_allocation(name))
    assert server.seen == []


@pytest.mark.parametrize("key", ["", "a b", "ü", "x" * 129, "a\r\nX-Evil: 1"])
def test_a_bad_key_is_refused(server: Server, run: Runner, key: str) -> None:
    with pytest.raises(UsageError):
        run(lambda c: c.release_allocation("a", idempotency_key=key))
    assert server.seen == []


def test_arguments_that_json_cannot_hold_are_refused(server: Server, run: Runner) -> None:
    for bad in (float("nan"), object(), datetime(2030, 1, 1)):
        labels = {"a": bad}
        with pytest.raises(UsageError):
            run(partial(launch, labels=labels))
    assert server.seen == []


def test_a_change_is_tried_again_with_one_key(server: Server, run: Runner) -> None:
    server.plays(error(503, "UNAVAILABLE", reasons.OVERLOADED), error(503, "UNAVAILABLE"), Reply(200, allocation("reserved")))
    run(launch)
    run(launch)
    keys = [seen.headers["x-idempotency-key"] for seen in server.seen]
    assert len(keys) == 4 and len(set(keys[:3])) == 1 and keys[3] != keys[0]
    assert len({seen.body for seen in server.seen}) == 1
    assert 0.125 <= run.slept[0] <= 0.25 < run.slept[1] * 1.001 <= 0.501


def test_a_lost_connection_is_tried_again_with_the_same_key(server: Server, run: Runner) -> None:
    server.plays(Reply(raw=lambda _: None), Reply(200, allocation("reserved")))
    run(lambda c: launch(c, idempotency_key="mine"))
    assert [seen.headers["x-idempotency-key"] for seen in server.seen] == ["mine", "mine"]


def test_a_secret_whose_answer_was_lost_is_an_error_that_says_what_to_do(server: Server, run: Runner) -> None:
    calls: list[tuple[Any, str, str]] = [
        (lambda c: c.create_api_key("p", "s", scopes=["read"]), "key", "API key x-1"),
        (lambda c: c.rotate_api_key("p", "s", "k"), "key", "API key x-1"),
        (lambda c: c.create_project_webhook("p", url="https://example.com"), "secret", "webhook x-1"),
        (lambda c: c.create_organisation_webhook("o", url="https://example.com"), "secret", "webhook x-1"),
        (lambda c: c.rotate_webhook_secret("w"), "secret", "webhook x-1"),
        (lambda c: c.create_project_invitation("p", email="a@example.com", role="member"), "token", "invitation x-1"),
        (lambda c: c.create_organisation_invitation("o", email="a@example.com", role="member"), "token", "invitation x-1"),
        (lambda c: c.create_enrolment_token("n"), "token", "enrolment token"),
        (lambda c: c.create_terminal_session("a"), "ticket", "ticket of a terminal"),
    ]
    for call, field, made in calls:
        server.plays(Reply(200, {"id": "x-1", field: "secret"}))
        assert getattr(run(call), field) == "secret"
        server.seen.clear()
        server.plays(Reply(raw=lambda _: None), Reply(200, {"id": "x-1"}))
        with pytest.raises(errors.SecretLostError, match=made) as caught:
            run(call)
        assert [seen.headers["x-idempotency-key"] for seen in server.seen] == 2 * [caught.value.idempotency_key]
        assert getattr(caught.value.answer, field) == ""
    assert len(calls) == len(_once.ONCE)


def test_every_operation_with_a_secret_is_one_of_the_api() -> None:
    operations = {(one.verb, one.path): one for one in vars(_table).values() if isinstance(one, Operation)}
    for named, once in _once.ONCE.items():
        fields = {one.name for one in dataclasses.fields(operations[named].answer)}
        assert {once.field, once.named_by or once.field} <= fields, named


def test_attempts_have_an_end_and_the_error_names_the_key(server: Server, run: Runner) -> None:
    server.plays(error(503, "UNAVAILABLE"))
    with pytest.raises(errors.ServerError) as caught:
        run(lambda c: launch(c, idempotency_key="mine"), retries=Retries(attempts=3))
    assert len(server.seen) == 3 and caught.value.idempotency_key == "mine"


def test_a_dry_run_needs_no_key(server: Server, run: Runner) -> None:
    server.plays(error(503, "UNAVAILABLE"), Reply(200, {}))
    run(lambda c: launch(c, validate_only=True))
    assert [seen.headers.get("x-idempotency-key") for seen in server.seen] == [None, None]


def test_retry_after_is_kept(server: Server, run: Runner) -> None:
    server.plays(error(429, "RESOURCE_EXHAUSTED", reasons.RATE_LIMITED, Retry_After="7"), Reply(200, {}))
    run(lambda c: c.list_skus())
    assert 7.0 <= run.slept[0] <= 7.25


@pytest.mark.parametrize("value", ["3600", "Fri, 31 Dec 2100 23:59:59 GMT"])
def test_a_retry_after_that_is_too_long_is_raised(server: Server, run: Runner, value: str) -> None:
    server.plays(error(429, "RESOURCE_EXHAUSTED", reasons.RATE_LIMITED, Retry_After=value))
    with pytest.raises(errors.RateLimitedError) as caught:
        run(lambda c: c.list_skus())
    assert len(server.seen) == 1 and (caught.value.retry_after or 0) >= 3600


@pytest.mark.parametrize("value", ["", "soon", "-1", "9" * 400, "٣", "1e9"])
def test_a_retry_after_that_says_nothing(server: Server, run: Runner, value: str) -> None:
    headers = {"Retry-After": value.encode().decode("latin-1")}
    server.plays(Reply(503, {}, headers), Reply(200, {}))
    run(lambda c: c.list_skus())
    assert len(run.slept) == 1 and run.slept[0] <= 0.25
    server.plays(Reply(429, {}, headers))
    with pytest.raises(errors.RateLimitedError):
        run(lambda c: c.list_skus())
    assert len(server.seen) == 3, "429 without Retry-After is not tried again"


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 500, 501, 502, 504])
def test_what_does_not_pass_is_not_tried_again(server: Server, run: Runner, status: int) -> None:
    server.plays(error(status, "X", reasons.QUOTA))
    with pytest.raises(ApiError) as caught:
        run(launch)
    assert len(server.seen) == 1 and caught.value.http_status == status


def test_an_error_has_its_parts(server: Server, run: Runner) -> None:
    server.plays(error(403, "RESOURCE_EXHAUSTED", reasons.QUOTA))
    with pytest.raises(errors.PermissionDeniedError) as caught:
        run(launch)
    got = caught.value
    assert (got.status, got.reason, got.message, got.request_id) == ("RESOURCE_EXHAUSTED", "QUOTA", "It is refused.", "r-1")
    assert got.metadata == {"quota": "gpus"}
    assert got.field_violations == (errors.FieldViolation("sku", "is required"),)
    assert str(got) == "It is refused.; sku: is required (QUOTA, request r-1)"


@pytest.mark.parametrize(
    "body",
    [
        b"<html><h1>502 Bad Gateway</h1></html>",
        b"",
        b"\xff\xfe",
        b"null",
        b"[]",
        b'{"error": 5}',
        b'{"error": {"details": 7, "message": 3}}',
        b'{"error": {"details": [1, {"reason": 5, "metadata": {"a": []}, "field_violations": [2, {"field": {}}]}]}}',
        b"[" * 100_000,
        b"x" * 3_000_000,
    ],
)
def test_an_error_of_any_form_is_an_api_error(server: Server, run: Runner, body: bytes) -> None:
    server.plays(Reply(502, body, {"Content-Type": "text/html", "X-Request-Id": "r-2"}))
    with pytest.raises(errors.ServerError) as caught:
        run(lambda c: c.list_skus())
    assert (caught.value.reason, caught.value.request_id) == ("", "r-2")
    assert "502" in str(caught.value) and "text/html" in str(caught.value)


def test_an_error_cannot_write_to_a_terminal(server: Server, run: Runner) -> None:
    server.plays(Reply(400, {"error": {"message": "\x1b[2Jgone\r\n\u202e" + "x" * 9999, "details": [{"reason": "A\x07"}]}}))
    with pytest.raises(ApiError) as caught:
        run(lambda c: c.list_skus())
    assert str(caught.value).isprintable() and len(str(caught.value)) < 3000


@pytest.mark.parametrize(
    "body",
    [
        b"<html>login</html>",
        b"",
        b"\xff",
        b"null",
        b"[1]",
        b'"text"',
        b"{",
        b"[" * 100_000,
        b'{"skus": {}}',
        b'{"skus": [1]}',
        b'{"skus": [{"code": 1}]}',
        b'{"skus": [{"allowed_gpu_counts": ["many"]}]}',
        b'{"next_page_token": true}',
        b"9" * 5000,
    ],
)
def test_an_answer_of_another_form_is_named(server: Server, run: Runner, body: bytes) -> None:
    server.plays(Reply(200, body))
    with pytest.raises(ProtocolError):
        run(lambda c: c.list_skus())
    assert len(server.seen) == 1


def test_a_huge_answer_is_refused(server: Server, run: Runner) -> None:
    server.plays(Reply(200, b'{"skus": [' + b" " * 100_000))
    with pytest.raises(ProtocolError, match="larger than 1000 bytes"):
        run(lambda c: c.list_skus(), max_answer_bytes=1000)


def test_a_redirect_is_not_followed(server: Server, run: Runner) -> None:
    server.plays(Reply(302, b"", {"Location": "http://127.0.0.1:9/"}))
    with pytest.raises(ApiError) as caught:
        run(lambda c: c.list_skus())
    assert caught.value.http_status == 302 and len(server.seen) == 1


def drip(file: Any) -> None:
    """Sends one byte after another until the client has had enough."""
    pace = threading.Event()
    try:
        file.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        while not pace.wait(0.01):
            file.write(b" ")
            file.flush()
    except OSError:
        pass


def test_a_slow_body_ends_with_the_timeout(server: Server, run: Runner) -> None:
    server.plays(Reply(raw=drip))
    with pytest.raises(CallTimeoutError):
        run(lambda c: c.list_skus(timeout=0.2))


def test_a_silent_server_ends_with_the_timeout(run: Runner) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        run.url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(CallTimeoutError) as caught:
            run(lambda c: launch(c, timeout=0.2, idempotency_key="mine"))
        assert caught.value.idempotency_key == "mine"
        assert isinstance(caught.value, TimeoutError)


def test_a_server_that_speaks_no_http(server: Server, run: Runner) -> None:
    server.plays(Reply(raw=lambda file: file.write(b"SSH-2.0-OpenSSH\r\n")))
    with pytest.raises(TransportError):
        run(lambda c: c.list_skus(), retries=Retries(attempts=2))
    assert len(server.seen) == 2


def test_a_body_with_a_false_encoding(server: Server, run: Runner) -> None:
    server.plays(Reply(200, b"not gzip", {"Content-Encoding": "gzip"}))
    with pytest.raises(ProtocolError):
        run(lambda c: c.list_skus())


def test_nobody_listens(run: Runner) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        run.url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        closed.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    with pytest.raises(TransportError):
        run(lambda c: c.list_skus(), retries=Retries(attempts=2))
    assert len(run.slept) == 1


def test_a_cancelled_call_ends_at_once_and_the_client_goes_on(server: Server) -> None:
    async def story() -> None:
        async with AsyncClient(server.url, token=TOKEN) as client:
            server.plays(Reply(raw=drip))
            call = asyncio.create_task(client.list_skus())
            while not server.seen:
                await asyncio.sleep(0)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            server.plays(Reply(200, {"skus": [{"code": "s"}]}))
            assert (await client.list_skus()).skus[0].code == "s"

    asyncio.run(story())


def test_the_address_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GPUAAS_API", raising=False)
    for bad in (
        None,
        "",
        "api.example.com",
        "ftp://x",
        "https://",
        "https://user:pw@x",
        "https://x/?a=b",
        "http://api.example.com",
        "https://x:y",
    ):
        with pytest.raises(UsageError):
            Client(bad, token=TOKEN)
    monkeypatch.setenv("GPUAAS_API", "https://api.example.com/below")
    assert str(Client(token=TOKEN).base_url) == "https://api.example.com/below/"


def test_tokens_come_from_argument_environment_and_file(
    server: Server, run: Runner, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text("from-file\n")
    server.plays(Reply(200, {}))
    run(lambda c: c.list_skus(), token=lambda: "from-function")
    monkeypatch.setenv("GPUAAS_TOKEN_FILE", str(file))
    run(lambda c: c.list_skus(), token=None)
    monkeypatch.setenv("GPUAAS_TOKEN", "from-environment")
    run(lambda c: c.list_skus(), token=None)
    run(lambda c: c.list_skus(), token=None, token_file=file)
    monkeypatch.delenv("GPUAAS_TOKEN")
    monkeypatch.delenv("GPUAAS_TOKEN_FILE")
    run(lambda c: c.list_skus(), token=None)
    told = [seen.headers.get("authorization", "").removeprefix("Bearer ") for seen in server.seen]
    assert told == ["from-function", "from-file", "from-environment", "from-file", ""]


def test_a_renewed_token_file_is_used(server: Server, tmp_path: Path) -> None:
    file = tmp_path / "token"
    server.plays(Reply(200, {}))
    with Client(server.url, token_file=file) as client:
        with pytest.raises(UsageError, match="cannot be read"):
            client.list_skus()
        for token in ("one", "two"):
            file.write_text(token)
            client.list_skus()
    assert [seen.headers["authorization"] for seen in server.seen] == ["Bearer one", "Bearer two"]


def test_a_token_is_never_shown(server: Server, run: Runner, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    for bad in (f"{TOKEN}\r\nX-Evil: 1", f"{TOKEN} ü", "x" * 100_000, ""):
        with pytest.raises(UsageError) as caught:
            run(lambda c: c.list_skus(), token=bad)
        assert "secret" not in str(caught.value)
        assert caught.value.__context__ is None and caught.value.__cause__ is None
    server.plays(Reply(raw=lambda _: None))
    with pytest.raises(TransportError) as lost:
        run(lambda c: c.list_skus(), retries=Retries(attempts=1))
    client = Client(server.url, token=TOKEN)
    shown = f"{client!r} {vars(client)!r} {lost.value!r} {lost.value.__cause__!r} {caplog.text}"
    assert "secret-token" not in shown
