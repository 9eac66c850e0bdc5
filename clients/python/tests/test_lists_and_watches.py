"""Pages, watches and waiters."""

from __future__ import annotations

import asyncio
import json

import pytest

from gpuaas import AllocationFailedError, ApiError, AsyncClient, ProtocolError, Retries, TransportError, WaitTimeoutError, errors, reasons
from gpuaas._watching import Lines
from tests.conftest import TOKEN, Reply, Runner, Server, allocation, error, lines


def change(state: str, token: str = "", **status: object) -> dict[str, object]:
    return {"change": {"kind": "modified", "allocation": allocation(state, **status)}, "resume_token": token}


END = {"end": {}, "resume_token": "last"}


def page(*names: str, token: str = "") -> Reply:
    return Reply(200, {"allocations": [{"id": name} for name in names], "next_page_token": token})


def test_all_pages_are_read(server: Server, run: Runner) -> None:
    server.plays(page("1", "2", token="t/&"), page(token="u"), page("3"))
    got = run(lambda c: c.iter_allocations(include_ended=True, page_size=2))
    assert [item.id for item in got] == ["1", "2", "3"]
    assert [seen.path.split("?")[1] for seen in server.seen] == [
        "page_size=2&include_ended=true",
        "page_size=2&include_ended=true&page_token=t%2F%26",
        "page_size=2&include_ended=true&page_token=u",
    ]


def test_a_mask_of_fields_leaves_no_page_out(server: Server, run: Runner) -> None:
    server.plays(page("1", token="a"), page("2"))
    got = run(lambda c: c.iter_allocations(read_mask="allocations.id"))
    assert [(item.id, item.config.name) for item in got] == [("1", ""), ("2", "")]
    assert [seen.path.split("?")[1] for seen in server.seen] == [
        "read_mask=allocations.id%2Cnext_page_token",
        "read_mask=allocations.id%2Cnext_page_token&page_token=a",
    ]
    server.plays(Reply(200, {"id": "1"}))
    run(lambda c: c.get_allocation("1", read_mask="id"))
    assert server.seen[-1].path.endswith("?read_mask=id")


def test_pages_without_end_are_noticed(server: Server, run: Runner) -> None:
    server.plays(page("1", token="a"), page("2", token="b"), page("3", token="a"))
    with pytest.raises(ProtocolError, match="no end"):
        run(lambda c: c.iter_allocations())
    assert len(server.seen) == 3


def test_a_page_that_fails_is_tried_again_alone(server: Server, run: Runner) -> None:
    server.plays(page("1", token="a"), error(503, "UNAVAILABLE"), page("2"))
    assert len(run(lambda c: c.iter_allocations())) == 2


def test_a_watch_goes_on_where_its_stream_was_lost(server: Server, run: Runner) -> None:
    lost = {"error": {"code": 503, "status": "UNAVAILABLE", "message": "restarts", "details": []}}
    server.plays(lines(change("reserved", "t1"), {"heartbeat": {}}), lines(change("active", "t2"), lost), lines(END))
    got = run(lambda c: c.watch_allocation("a-1"))
    states = [m.change.allocation.status.state for m in got if m.change]
    assert states == ["reserved", "active"] and got[-1].end is not None
    assert [seen.path.partition("?")[2] for seen in server.seen] == ["", "resume_token=t1", "resume_token=t2"]


def test_a_watch_with_an_expired_token_is_opened_again_with_the_renewed_one(server: Server, run: Runner) -> None:
    expired = {"error": {"code": 401, "status": "UNAUTHENTICATED", "message": "old", "details": [{"reason": "CREDENTIAL_EXPIRED"}]}}
    server.plays(lines(change("reserved", "t1"), expired), error(401, "UNAUTHENTICATED", reasons.CREDENTIAL_EXPIRED))
    with pytest.raises(errors.UnauthenticatedError):
        run(lambda c: c.watch_allocation("a-1"))
    assert len(server.seen) == 2


def test_a_watch_whose_access_has_changed_is_opened_again(server: Server, run: Runner) -> None:
    changed = {"error": {"code": 403, "status": "PERMISSION_DENIED", "message": "changed", "details": []}}
    server.plays(lines(change("reserved", "t1"), changed), lines(change("active", "t2"), END))
    assert len(run(lambda c: c.watch_allocation("a-1"))) == 3
    # who may not any more hears that when it is opened
    server.plays(lines(change("reserved", "t1"), changed), error(403, "PERMISSION_DENIED", reasons.PERMISSION_DENIED))
    with pytest.raises(errors.PermissionDeniedError):
        run(lambda c: c.watch_allocation("a-1"))
    assert len(server.seen) == 4


def test_a_watch_that_is_refused_raises(server: Server, run: Runner) -> None:
    for refused in (error(404, "NOT_FOUND", reasons.ALLOCATION_NOT_FOUND), error(400, "OUT_OF_RANGE", reasons.RESUME_TOKEN_EXPIRED)):
        server.plays(refused)
        with pytest.raises(ApiError):
            run(lambda c: c.watch_allocation("a-1"))
    assert len(server.seen) == 2


@pytest.mark.parametrize("bad", [b"<html>\n", b'{"change": 1}\n'])
def test_a_watch_under_way_ends_with_a_line_of_another_form(server: Server, run: Runner, bad: bytes) -> None:
    good = lines(change("reserved", "t1"))
    server.plays(Reply(good.status, good.body + bad), lines(END))
    with pytest.raises(ProtocolError):
        run(lambda c: c.watch_allocation("a-1"))
    assert len(server.seen) == 1


def test_a_watch_under_way_ends_when_its_token_cannot_be_read(server: Server, run: Runner) -> None:
    asked: list[str] = []

    def token() -> str:
        asked.append("")
        if len(asked) > 1:
            raise errors.UsageError("the token file cannot be read")
        return TOKEN

    server.plays(lines(change("reserved", "t1")), lines(END))
    with pytest.raises(errors.UsageError):
        run(lambda c: c.watch_allocation("a-1"), token=token)
    assert (len(server.seen), len(asked)) == (1, 2)


def test_a_watch_that_never_comes_ends(server: Server, run: Runner) -> None:
    server.plays(lines())
    with pytest.raises(TransportError, match="stream ended"):
        run(lambda c: c.watch_allocation("a-1"), retries=Retries(attempts=3))
    assert len(server.seen) == 3


@pytest.mark.parametrize("line", [b"<html>\n", b"[]\n", b'{"change": 1}\n', b'{"error": 1}\n', b"\xff\n"])
def test_a_line_of_another_form_is_named(server: Server, run: Runner, line: bytes) -> None:
    server.plays(Reply(200, line))
    with pytest.raises((ProtocolError, ApiError)):
        run(lambda c: c.watch_allocation("a-1"))
    assert len(server.seen) == 1


def test_lines_come_whole_however_they_are_cut() -> None:
    text = json.dumps({"a": "ü\u2028\u0085"}, ensure_ascii=False).encode() + b"\n\r\n\n{}\n"
    for size in range(1, len(text)):
        cut, got = Lines(), []
        for begin in range(0, len(text), size):
            got += list(cut.take(text[begin : begin + size]))
        assert [json.loads(line) for line in got] == [{"a": "ü\u2028\u0085"}, {}]


def test_a_line_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuaas._watching.MOST_LINE_BYTES", 10)
    with pytest.raises(ProtocolError, match="longer than 10"):
        list(Lines().take(b"x" * 11))


def test_a_waiter_returns_once_the_state_is_reached(server: Server, run: Runner) -> None:
    server.plays(Reply(200, allocation("reserved")), lines(change("provisioning", "t"), change("active", "u")))
    assert run(lambda c: c.wait_until_active("a-1")).status.state == "active"
    server.plays(Reply(200, allocation("released")))
    assert run(lambda c: c.wait_released("a-1")).status.state == "released"
    assert len(server.seen) == 3


def test_a_waiter_tells_why_the_allocation_failed(server: Server, run: Runner) -> None:
    failure = {"reason": "HOST_UNREACHABLE", "message": "The host does not answer.", "advice": "Try again.", "step": "boot"}
    server.plays(Reply(200, allocation("reserved")), lines(change("failed", "t", failure=failure)))
    with pytest.raises(AllocationFailedError) as caught:
        run(lambda c: c.wait_until_active("a-1"))
    got = caught.value
    assert (got.reason, got.advice, got.step) == ("HOST_UNREACHABLE", "Try again.", "boot")
    assert str(got) == "allocation a-1: The host does not answer. (HOST_UNREACHABLE)"


def test_a_waiter_for_activity_ends_when_it_is_released(server: Server, run: Runner) -> None:
    server.plays(Reply(200, allocation("releasing")))
    with pytest.raises(AllocationFailedError, match="its state is releasing"):
        run(lambda c: c.wait_until_active("a-1"))


def test_a_waiter_gets_along_without_watches(server: Server, run: Runner) -> None:
    server.plays(Reply(200, allocation("reserved")), Reply(200, b"<html>"), Reply(200, allocation("active")))
    assert run(lambda c: c.wait_until_active("a-1")).status.state == "active"


def test_a_waiter_starts_anew_when_the_changes_are_no_longer_kept(server: Server, run: Runner) -> None:
    old = error(400, "OUT_OF_RANGE", reasons.RESUME_TOKEN_EXPIRED)
    server.plays(Reply(200, allocation("reserved")), lines(change("reserved", "t")), old, Reply(200, allocation("active")))
    assert run(lambda c: c.wait_until_active("a-1")).status.state == "active"


def test_a_waiter_ends_for_what_is_not_there(server: Server, run: Runner) -> None:
    server.plays(error(404, "NOT_FOUND", reasons.ALLOCATION_NOT_FOUND))
    with pytest.raises(errors.NotFoundError):
        run(lambda c: c.wait_until_active("a-1"))
    server.plays(Reply(200, b"rubbish"))
    with pytest.raises(ProtocolError):
        run(lambda c: c.wait_until_active("a-1"))


def test_a_waiter_has_a_deadline_and_knows_the_last_state(server: Server, run: Runner) -> None:
    server.plays(Reply(200, allocation("provisioning")), lines())
    server.replies.append(Reply(200, allocation("provisioning")))
    with pytest.raises(WaitTimeoutError) as caught:
        run(lambda c: c.wait_until_active("a-1", timeout=2), retries=Retries(attempts=1))
    assert caught.value.allocation is not None and "provisioning" in str(caught.value)


def test_a_cancelled_waiter_ends(server: Server) -> None:
    async def story() -> None:
        async with AsyncClient(server.url, token=TOKEN) as client:
            server.plays(Reply(200, allocation("reserved")))
            waiter = asyncio.create_task(client.wait_until_active("a-1"))
            while not server.seen:
                await asyncio.sleep(0)
            waiter.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiter

    asyncio.run(story())
