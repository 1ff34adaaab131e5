"""Streams of events of callers whose credentials end while they listen, over a socket."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import httpx
import pytest

from api.access import token_edits
from api.access.rights import Principal, Role
from headrace.process.rest import RestServer
from mirror.coordination.stores.events import command_event
from mirror.model.identifiers import DatastreamName
from tests.patience import PATIENCE_SECONDS
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
    """The lines of a stream that has begun."""
    headers = {"Accept": "text/event-stream", "Authorization": f"Bearer {token}"}
    url = f"http://{server.address}/v1/events"
    with httpx.stream("GET", url, headers=headers, timeout=PATIENCE_SECONDS, trust_env=False) as answer:
        lines = answer.iter_lines()
        assert next(lines).startswith("id: ")
        yield lines


def revoke(guarded: Guarded) -> None:
    token_edits.revoke(guarded.file, guarded.ids["short"])


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
