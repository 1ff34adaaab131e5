"""Test event streams, over a socket, of callers whose credentials end while they listen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import httpx
import pytest

from api.access import tokens
from api.access.rights import Principal, Role
from api.http.event_streams import EventFeed
from headrace.process.rest import RestServer
from mirror.coordination.stores.events import command_event
from mirror.model.identifiers import DatastreamName
from tests.patience import PATIENCE_SECONDS, wait_until
from tests.unit.api.guarded import Guarded

EXPIRES_MS: Final = 60_000


@pytest.fixture
def server(guarded: Guarded) -> Iterator[RestServer]:
    found = RestServer("127.0.0.1", 0)
    found.bind()
    found.attach(guarded.site.app)
    found.start()
    yield found
    found.stop(PATIENCE_SECONDS)


@contextmanager
def listening(server: RestServer, token: str) -> Iterator[Iterator[str]]:
    """Open a stream and yield its lines after the first id."""
    headers = {"Accept": "text/event-stream", "Authorization": f"Bearer {token}"}
    url = f"http://{server.address}/v1/events"
    with httpx.stream("GET", url, headers=headers, timeout=PATIENCE_SECONDS, trust_env=False) as answer:
        lines = answer.iter_lines()
        assert any(line.startswith("id: ") for line in lines)
        yield lines


def revoke(guarded: Guarded) -> None:
    tokens.revoke(guarded.file, guarded.ids["short"])


def expire(guarded: Guarded) -> None:
    guarded.clock.advance(EXPIRES_MS / 1_000)


def lose_file(guarded: Guarded) -> None:
    guarded.file.unlink()


ENDS: Final = pytest.mark.parametrize("end", [revoke, expire, lose_file])


def short_token(guarded: Guarded) -> str:
    return guarded.add(Principal("sam", Role.VIEWER), "short", guarded.clock.now_ms() + EXPIRES_MS)


@ENDS
def test_a_silent_stream_ends_at_the_next_beat(
    guarded: Guarded, server: RestServer, end: Callable[[Guarded], None]
) -> None:
    guarded.site.app.state.event_feed._beat_seconds = 0.01
    with listening(server, short_token(guarded)) as lines:
        assert any(line.startswith(":") for line in lines)
        end(guarded)
        assert not any(line.startswith("data") for line in lines)


@ENDS
def test_no_event_is_sent_after_the_end(
    guarded: Guarded, server: RestServer, end: Callable[[Guarded], None]
) -> None:
    with listening(server, short_token(guarded)) as lines:
        end(guarded)
        event = command_event(DatastreamName("mine"), "a secret", guarded.clock.now_ms())
        guarded.site.leader.events.append((event,))
        assert not any(line.startswith("data") for line in lines)


def test_others_listen_on(guarded: Guarded, server: RestServer) -> None:
    short = short_token(guarded)
    with listening(server, guarded.tokens["viewer"]) as others, listening(server, short) as lines:
        revoke(guarded)
        event = command_event(DatastreamName("mine"), "news", guarded.clock.now_ms())
        guarded.site.leader.events.append((event,))
        assert any("news" in line for line in others)
        assert not any(line.startswith("data") for line in lines)


def refused(server: RestServer, token: str) -> tuple[int, str]:
    headers = {"Accept": "text/event-stream", "Authorization": f"Bearer {token}"}
    answer = httpx.get(f"http://{server.address}/v1/events", headers=headers, timeout=PATIENCE_SECONDS)
    return answer.status_code, answer.json()["kind"]


def test_a_principal_takes_its_own_places_for_streams(guarded: Guarded, server: RestServer) -> None:
    feed = guarded.site.app.state.event_feed
    guarded.site.app.state.event_feed = limited = EventFeed(feed._read, most_listeners=3, most_each=2)
    viewer, operator = guarded.tokens["viewer"], guarded.tokens["operator"]
    with listening(server, viewer), listening(server, viewer):
        assert refused(server, viewer) == (429, "TooOften")
        with listening(server, operator):
            assert refused(server, guarded.tokens["admin"]) == (503, "Busy")
    wait_until(lambda: not limited._listeners.count)
    with listening(server, viewer):
        pass


def test_principals_of_one_owner_share_its_places_for_streams(guarded: Guarded, server: RestServer) -> None:
    feed = guarded.site.app.state.event_feed
    guarded.site.app.state.event_feed = EventFeed(feed._read, most_each=1)
    other = guarded.add(Principal("olga", Role.OWNER, frozenset({"mine", "more"})))
    with listening(server, guarded.tokens["owner"]):
        assert refused(server, other) == (429, "TooOften")
        with listening(server, guarded.tokens["viewer"]):
            pass
