"""Test the event stream: the events that a listener receives, and their cost."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from httpx import Client

from api.app import end_streams
from api.http.event_streams import EventFeed, EventStream
from mirror.control.event_positions import EventPosition, Gap
from mirror.coordination.stores.events import KEPT_OF_GROUP, EventLog, command_event
from mirror.errors import Busy, Unreachable
from mirror.model.identifiers import DatastreamName
from mirror.model.metrics import NO_EVENTS
from tests.fakes.node_store import FakeSession, FakeZooKeeper, Fault, Operation, Script
from tests.fakes.site import Site
from tests.patience import PATIENCE_SECONDS

STREAM = {"Accept": "text/event-stream"}


class Listener:
    """A client of a feed, with the messages received and the id to resume from."""

    def __init__(
        self, feed: EventFeed, position: str | None = None, only: frozenset[str] | None = None
    ) -> None:
        where = EventPosition(*map(int, position.split("-"))) if position else None
        self._stream = EventStream(feed, where, only, lambda: True)
        self._chunks: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._messages: list[dict[str, str]] = []
        self.id = position or ""
        self.beats = 0
        self.gaps: list[dict[str, object]] = []
        self.task = asyncio.create_task(self._serve())

    async def _serve(self) -> None:
        async def send(message: Any) -> None:
            if message["type"] == "http.response.body":
                self._chunks.put_nowait(message.get("body") or None)

        async def receive() -> Any:
            return await asyncio.Event().wait()

        await self._stream({"type": "http"}, receive, send)

    async def _read(self) -> bool:
        chunk = await asyncio.wait_for(self._chunks.get(), PATIENCE_SECONDS)
        for text in (chunk or b"").decode().split("\n\n"):
            self.beats += text.startswith(":")
            fields = dict(line.split(": ", 1) for line in text.split("\n") if line and line[0] != ":")
            self.id = fields.get("id", self.id)
            self._messages += [fields] if "data" in fields else []
        return chunk is not None

    async def begun(self) -> Listener:
        """Wait for the first id and return the listener."""
        while not self.id:
            await self._read()
        return self

    async def hear(self, count: int) -> list[str]:
        """Return the sentences of the next messages; for a gap, its type."""
        while len(self._messages) < count:
            assert await self._read(), "the stream ended early"
        heard, self._messages = self._messages[:count], self._messages[count:]
        self.gaps += [json.loads(one["data"]) for one in heard if one.get("event") == "gap"]
        return [one.get("event") or json.loads(one["data"])["sentence"] for one in heard]

    async def beat(self) -> None:
        before = self.beats
        while self.beats == before:
            await self._read()

    async def end(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


class Log:
    """A log, and a feed that reads it in another session."""

    def __init__(self, beat_seconds: float = 60.0, most_listeners: int = 200) -> None:
        self.first = 0
        self.server = FakeZooKeeper()
        self.log = EventLog(self.server.session())
        self.session: FakeSession = self.server.session()
        self.feed = EventFeed(
            EventLog(self.session, lambda: self.first).history, beat_seconds, most_listeners
        )

    def tell(self, *sentences: str, name: str = "orders") -> None:
        self.log.append(tuple(command_event(DatastreamName(name), one, 1) for one in sentences))


def test_a_listener_hears_what_happens_from_now_on_and_resumes_where_it_was() -> None:
    async def check() -> None:
        log = Log()
        log.tell("before")
        one = await Listener(log.feed).begun()
        assert one.id == "1-0"
        log.tell("a", "b")
        assert await one.hear(2) == ["a", "b"]
        await one.end()
        log.tell("c")
        again = Listener(log.feed, one.id)
        assert await again.hear(1) == ["c"]
        await again.end()
        first = Listener(log.feed, "1-1")
        assert await first.hear(2) == ["b", "c"]
        await first.end()

    asyncio.run(check())


def test_what_was_dropped_meanwhile_is_a_gap() -> None:
    async def check() -> None:
        log = Log()
        for number in range(KEPT_OF_GROUP + 2):
            log.tell(str(number))
        late, early = Listener(log.feed, "1-0"), Listener(log.feed, "2-0")
        assert await late.hear(2) == ["gap", "2"]
        assert await early.hear(1) == ["2"]
        for listener in (late, early):
            await listener.end()

    asyncio.run(check())


def wiped(log: Log, first: int, *sentences: str) -> None:
    """Delete the log, and begin a new one from the number `first`."""
    log.server.session().delete_tree("/events")
    log.first = first
    log.tell(*sentences)


@pytest.mark.parametrize("length", [1, 3, 9])
def test_a_wiped_store_is_a_gap_for_a_listener_that_resumes_and_then_all_new_events(length: int) -> None:
    """The new log is shorter than the old one, equally long, or longer."""

    async def check() -> None:
        log = Log()
        for number in range(3):
            log.tell(f"old {number}")
        one = await Listener(log.feed).begun()
        assert one.id == "3-0"
        await one.end()
        wiped(log, 500, "new 0")
        new = [f"new {number}" for number in range(length)]
        for sentence in new[1:]:
            log.tell(sentence)
        again = Listener(log.feed, one.id)
        assert await again.hear(1 + length) == ["gap", *new]
        assert again.gaps == [{"reason": Gap.RESET, "is_reset": True}]
        log.tell("at last")
        assert await again.hear(1) == ["at last"]
        await again.end()

    asyncio.run(check())


def test_a_store_that_is_wiped_under_a_listener_is_a_gap_and_no_old_event_is_heard_again() -> None:
    async def check() -> None:
        log = Log()
        log.tell("old")
        listener = Listener(log.feed, "0-0")
        assert await listener.hear(1) == ["old"]
        wiped(log, 500, "new")
        assert await listener.hear(2) == ["gap", "new"]
        await listener.end()

    asyncio.run(check())


def test_instances_number_a_log_alike_also_after_a_damage() -> None:
    server, other = FakeZooKeeper(), FakeZooKeeper()
    logs = [EventLog(server.session()) for _ in range(2)]
    logs[0].append((command_event(DatastreamName("orders"), "a", 1),))
    first, second = (log.history(NO_EVENTS, lambda: None) for log in logs)
    assert first == second
    assert list(first.publications) == [first.first]
    elsewhere = EventLog(other.session())
    elsewhere.append((command_event(DatastreamName("orders"), "a", 1),))
    assert elsewhere.history(NO_EVENTS, lambda: None).first != first.first
    session = server.session()
    session.write("/events", b"{", session.read("/events").version)
    again = logs[1].history(second, lambda: None)
    assert again.first != first.first
    assert list(again.publications.values()) == list(first.publications.values())


def test_who_chooses_a_datastream_hears_of_no_other_and_of_no_gap_among_the_others() -> None:
    async def check() -> None:
        log = Log()
        log.tell("mine")
        listener = Listener(log.feed, "0-0", frozenset({"orders"}))
        assert await listener.hear(1) == ["mine"]
        log.tell("theirs", name="users")
        log.tell("mine again")
        assert await listener.hear(1) == ["mine again"]
        log.tell("theirs", name="users")
        while listener.id != "4-0":
            await listener._read()
        await listener.end()

    asyncio.run(check())


def test_listeners_share_one_reader_that_waits_for_a_watch_and_ends_with_them() -> None:
    async def check() -> None:
        log = Log()
        log.tell("before")
        listeners = [await Listener(log.feed, "0-0").begun() for _ in range(20)]
        for one in listeners:
            assert await one.hear(1) == ["before"]
        asked = len(log.session.log)
        assert (
            asked == 4
        )  # the number of the first entry, which is then stored, the list, and the new entries
        log.tell("now")
        for one in listeners:
            assert await one.hear(1) == ["now"]
        assert len(log.session.log) == asked + 3
        for one in listeners:
            await one.end()
        log.tell("nobody")
        await asyncio.sleep(0)
        assert len(log.session.log) == asked + 3
        assert log.feed._reading is None

    asyncio.run(check())


def fail(_: Operation) -> Fault:
    return Fault(after_effect=False)


def break_off(_: Operation) -> None:
    raise ZeroDivisionError


@pytest.mark.parametrize("trouble", [fail, break_off])
def test_who_hears_nothing_gets_signs_of_life_also_while_the_log_cannot_be_read(trouble: Script) -> None:
    async def check() -> None:
        log = Log(beat_seconds=0.01)
        log.session.script = trouble
        listener = Listener(log.feed)
        await listener.beat()
        log.session.script = lambda _: None
        await listener.begun()
        await listener.beat()
        log.tell("a")
        assert await listener.hear(1) == ["a"]
        await listener.end()

    asyncio.run(check())


def test_a_watch_that_got_lost_costs_a_beat_and_no_event() -> None:
    async def check() -> None:
        log = Log(beat_seconds=0.01)
        listener = await Listener(log.feed).begun()
        log.server.replica.forget()
        log.tell("a")
        assert await listener.hear(1) == ["a"]
        await listener.end()

    asyncio.run(check())


def test_more_listeners_than_there_are_places_for_are_refused_until_one_has_gone() -> None:
    async def check() -> None:
        log = Log(most_listeners=1)
        one = await Listener(log.feed).begun()
        with pytest.raises(Busy):
            await Listener(log.feed).task
        await one.end()
        two = await Listener(log.feed).begun()
        await two.end()

    asyncio.run(check())


def test_streams_end_when_the_instance_stops_and_none_begins() -> None:
    async def check() -> None:
        log = Log()
        one = await Listener(log.feed).begun()
        log.feed.close()
        await asyncio.wait_for(one.task, PATIENCE_SECONDS)
        with pytest.raises(Unreachable):
            await Listener(log.feed).task

    asyncio.run(check())


def test_a_stream_over_rest_is_refused_for_an_id_that_is_none(client: Client) -> None:
    answer = client.get("/v1/events", headers={**STREAM, "Last-Event-ID": "soon"})
    assert (answer.status_code, answer.headers["content-type"]) == (400, "application/problem+json")


def test_after_the_end_of_streams_a_listener_is_sent_elsewhere(client: Client, site: Site) -> None:
    end_streams(site.app)
    answer = client.get("/v1/events", headers=STREAM)
    assert (answer.status_code, answer.json()["kind"]) == (503, "Unreachable")
    assert client.get("/v1/events").status_code == 200


def test_a_list_of_the_events_of_one_datastream_has_those_of_its_group(client: Client, site: Site) -> None:
    site.create(metadata={"owner": "me", "system.taskPrefix": "shared"})
    site.create("users", destination={"cluster": "destination", "name": "u.*"})
    found = client.get("/v1/events", params={"datastream": "orders"}).json()
    assert [one["kind"] for one in found if one["datastream"] != "shared"] == ["command"], "its creation"
    assert len(client.get("/v1/events", params={"datastream": "orders", "limit": 2}).json()) == 2
    assert client.get("/v1/events", params={"datastream": "nobody"}).json() == []
