"""Test limits per caller: calls per second, concurrent slow calls, size and duration of request bodies."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import pytest
from fastapi import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import Message, Receive, Scope, Send

from api.access.gate import AccessMethods, Rate, Throttle
from api.access.rights import Action, Principal, Role
from api.access.tokens import TokenFile, add_entry, new_token
from api.http.middleware import CheckedBodies
from api.http.problems import headers_of, status_of
from api.http.slow_calls import MOST_AT_ONCE, SlowCalls
from mirror.errors import Busy, HeadraceError, TooOften
from mirror.model.documents import LARGEST
from tests.fakes.clock import ManualClock
from tests.fakes.in_process import client_of
from tests.fakes.site import HOSTS, Site


class Watched:
    """A site with the principals `loud` and `quiet`, limited to three calls at once and one per second."""

    def __init__(self, folder: Path) -> None:
        self.clock = ManualClock()
        self.throttle = Throttle(Rate(1.0, 3.0), self.clock.monotonic)
        file, tokens = folder / "tokens", {}
        for name in ("loud", "quiet"):
            tokens[name], entry = new_token(Principal(name, Role.ADMIN), 0)
            add_entry(file, entry)
        access = AccessMethods(
            TokenFile(file, self.clock),
            hosts=HOSTS,
            throttle=self.throttle,
            open_to_all=frozenset({Action.HEALTH}),
        )
        self.site = Site(access=access)
        self.site.tick()
        self.tokens = tokens

    def ask(self, name: str, path: str = "/v1/plan", method: str = "GET", **headers: str) -> Response:
        client = client_of(self.site.app)
        sent = {"Authorization": f"Bearer {self.tokens[name]}", **headers}
        return client.request(method, path, json={}, headers=sent)  # type: ignore[return-value]


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path)


def test_who_calls_too_often_waits_and_nobody_else(watched: Watched) -> None:
    assert [watched.ask("loud").status_code for _ in range(5)] == [200, 200, 200, 429, 429]
    refused: Any = watched.ask("loud", "/datastream", "POST")
    assert (refused.status_code, refused.headers["Retry-After"]) == (429, "1")
    body = watched.ask("loud").json()  # type: ignore[attr-defined]
    assert (body["kind"], body["status"]) == ("TooOften", 429)
    assert body["detail"].startswith("loud ")
    assert watched.ask("quiet").status_code == 200
    watched.clock.advance(1)
    assert [watched.ask("loud").status_code for _ in range(2)] == [200, 429]


def test_health_and_metrics_are_answered_to_who_calls_too_often(watched: Watched) -> None:
    for _ in range(4):
        watched.ask("loud")
    for path in ("/v1/health", "/health", "/metrics"):
        assert watched.ask("loud", path).status_code == 200
    assert watched.site.client.get("/health").status_code == 200


@pytest.mark.parametrize(
    "header", ["X-Forwarded-For", "Forwarded", "X-Request-ID", "X-Real-IP", "User-Agent", "Cookie"]
)
def test_no_header_makes_another_caller(watched: Watched, header: str) -> None:
    found = [watched.ask("loud", **{header: f"10.0.0.{number}"}).status_code for number in range(4)]
    assert found == [200, 200, 200, 429]


def test_calls_without_proof_take_nothing_from_anybody(watched: Watched) -> None:
    for _ in range(9):
        wrong = watched.site.client.get("/v1/plan", headers={"Authorization": "Bearer loud"})
        assert wrong.status_code == 401
    assert watched.ask("loud").status_code == 200


def test_callers_that_are_kept_in_mind_are_bounded() -> None:
    throttle = Throttle(Rate(1.0, 1.0), ManualClock().monotonic, most=2)
    for name in ("a", "b", "c"):
        throttle.admit(name)
    for name in ("b", "c"):
        with pytest.raises(TooOften):
            throttle.admit(name)
    throttle.admit("a")


LOUD: Final = frozenset({"principal loud", "owner loud"})


def test_one_caller_does_not_take_every_slow_call() -> None:
    async def asked() -> None:
        calls, go = SlowCalls(most_each=2), threading.Event()
        try:
            mine = [asyncio.create_task(calls.run(go.wait, LOUD)) for _ in range(2)]
            await asyncio.sleep(0)
            with pytest.raises(TooOften, match="owner loud"):
                await calls.run(lambda: True, LOUD)
            others = [frozenset({f"other-{one % 3}"}) for one in range(MOST_AT_ONCE - 2)]
            theirs = [asyncio.create_task(calls.run(go.wait, one)) for one in others]
            await asyncio.sleep(0)
            with pytest.raises(Busy, match="limit"):
                await calls.run(lambda: True, frozenset({"late"}))
        finally:
            go.set()
        assert all(await asyncio.gather(*mine, *theirs))
        assert await calls.run(lambda: True, LOUD)

    asyncio.run(asked())


def test_principals_of_one_owner_share_its_slow_calls() -> None:
    async def asked() -> None:
        calls, go = SlowCalls(most_each=2), threading.Event()
        team = [frozenset({f"principal {one}", "owner team"}) for one in range(3)]
        try:
            tasks = [asyncio.create_task(calls.run(go.wait, one)) for one in team[:2]]
            await asyncio.sleep(0)
            with pytest.raises(TooOften):
                await calls.run(lambda: True, team[2])
        finally:
            go.set()
        await asyncio.gather(*tasks)
        assert await calls.run(lambda: True, team[2])

    asyncio.run(asked())


def test_a_body_to_the_paths_of_instances_is_not_read() -> None:
    async def unread() -> Message:
        raise AssertionError("body read before the signature was verified")

    async def endpoint(scope: Scope, receive: Receive, send: Send) -> None:
        await PlainTextResponse("refused", 401)(scope, receive, send)

    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": "/v1/fleet/lanes", "headers": []}
    asyncio.run(CheckedBodies(endpoint, answered, 1.0)(scope, unread, send))
    assert sent[0]["status"] == 401


def test_who_is_not_known_has_all_slow_calls() -> None:
    async def asked() -> None:
        calls, go = SlowCalls(most_each=1), threading.Event()
        tasks = [asyncio.create_task(calls.run(go.wait)) for _ in range(MOST_AT_ONCE)]
        await asyncio.sleep(0)
        go.set()
        assert all(await asyncio.gather(*tasks))

    asyncio.run(asked())


async def answered(request: Request, error: HeadraceError) -> Response:
    return PlainTextResponse(type(error).__name__, status_of(error), headers=headers_of(error))


async def never(scope: Scope, receive: Receive, send: Send) -> None:
    raise AssertionError("incomplete body passed on")


def status_after(receive: Callable[[], Awaitable[Message]], seconds: float) -> list[Message]:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/v1/datastreams", "headers": []}
    asyncio.run(CheckedBodies(never, answered, seconds)(scope, receive, send))
    return sent


def test_a_body_that_does_not_come_is_given_up() -> None:
    async def drops() -> Message:
        await asyncio.sleep(0)
        return {"type": "http.request", "body": b" ", "more_body": True}

    async def nothing() -> Message:
        await asyncio.Event().wait()
        raise AssertionError("event set unexpectedly")

    sent = status_after(nothing, 0.01)
    assert (sent[0]["status"], (b"connection", b"close") in sent[0]["headers"]) == (408, True)
    assert status_after(drops, 0.01)[0]["status"] in (408, 413)


def test_a_body_without_end_is_refused_where_it_is_too_large() -> None:
    taken = 0

    async def flood() -> Message:
        nonlocal taken
        taken += 65_536
        return {"type": "http.request", "body": b"x" * 65_536, "more_body": True}

    assert status_after(flood, 30.0)[0]["status"] == 413
    assert taken <= LARGEST + 65_536
