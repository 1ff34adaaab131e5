"""Test `headrace events --follow`: every event is shown once, even if the connection is lost."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace

import httpx
import pytest

from api.http.event_streams import _publication
from headrace.console.event_stream import lines_of, messages
from mirror.control.event_positions import EventPosition, following
from mirror.coordination.stores.events import command_event
from mirror.errors import HeadraceError
from mirror.model.identifiers import DatastreamName
from mirror.model.metrics import EventHistory
from monitor.records.record import BudgetCost, DeliveryCost, IncidentRecord, Phase, RebalanceGain
from tests.fakes.site import Site
from tests.unit.headrace.conftest import Headrace, Serve, Shown

STREAM = {"content-type": "text/event-stream; charset=utf-8"}
FOLLOW = ("events", "--follow")
Answer = Callable[[], httpx.Response]


class Log:
    """Fake event log of a service: each publication is one sentence about `orders`."""

    def __init__(self, *sentences: str, dropped: int = 0) -> None:
        name = DatastreamName("orders")
        events = [(command_event(name, one, 1_700_000_000_000),) for one in sentences]
        self.kept = {number: one for number, one in enumerate(events) if number >= dropped}

    def after(self, position: str) -> bytes:
        """Return the stream after a position, in the format of `api.http.event_streams`."""
        place, sent = EventPosition(*map(int, position.split("-"))), f"id: {position}\n\n".encode()
        while (found := following(EventHistory(0, self.kept), place)) is not None:
            place, sent = found.position, sent + _publication(found, None)
        return sent


class Lost(httpx.SyncByteStream):
    """A body that breaks off after some bytes."""

    def __init__(self, sent: bytes) -> None:
        self._sent = sent

    def __iter__(self) -> Iterator[bytes]:
        yield self._sent[: len(self._sent) // 2]
        yield self._sent[len(self._sent) // 2 :] + b'id: 77-0\ndata: {"half": "an ev'
        raise httpx.ReadError("reset")


@pytest.fixture
def answers(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> list[Answer]:
    """Return the list of responses to send, in order; after the last one, ctrl-C is pressed."""
    left: list[Answer] = []

    def answer(_: httpx.Request) -> httpx.Response:
        if not left:
            raise KeyboardInterrupt
        return left.pop(0)()

    monkeypatch.setattr("headrace.console.patience.pause", lambda _: None)
    serve(httpx.MockTransport(answer))
    return left


def stream(sent: bytes, *, breaks: bool = False) -> Answer:
    if breaks:
        return lambda: httpx.Response(200, headers=STREAM, stream=Lost(sent))
    return lambda: httpx.Response(200, headers=STREAM, content=sent)


def test_events_are_lines_with_their_moment(answers: list[Answer], headrace: Headrace) -> None:
    answers.append(stream(Log("me paused it", "you resumed it").after("0-0")))
    shown = headrace(*FOLLOW)
    assert shown.code == 0
    for line, sentence in zip(shown.out.splitlines(), ("me paused it", "you resumed it"), strict=True):
        assert line.startswith("2023-11-14T22:13:20Z orders ")
        assert line.endswith(f" command: {sentence}")
    assert "0.5 s, after event 2-0" in shown.err


def resumed(headrace: Headrace, serve: Serve, log: Log, cuts: int) -> tuple[Shown, list[str]]:
    """Follow the log over a connection lost `cuts` times, each time after one event, and return the output
    and the ids that the command requested."""
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.headers.get("Last-Event-ID", ""))
        assert request.headers["accept"] == "text/event-stream"
        if len(asked) > cuts:
            raise KeyboardInterrupt
        sent = log.after(asked[-1] or "0-0").split(b"\n\n")
        some = b"\n\n".join(sent[:2]) + b"\n\n"
        return httpx.Response(200, headers=STREAM, stream=Lost(some))

    serve(httpx.MockTransport(answer))
    return headrace(*FOLLOW, "--json"), asked


def test_a_lost_connection_is_made_again_and_nothing_is_told_twice_or_missed(
    answers: list[Answer], headrace: Headrace, serve: Serve
) -> None:
    shown, asked = resumed(headrace, serve, Log("a", "b", "c"), 3)
    assert [json.loads(one)["sentence"] for one in shown.out.splitlines()] == ["a", "b", "c"]
    assert [json.loads(one)["id"] for one in shown.out.splitlines()] == ["1-0", "2-0", "3-0"]
    assert asked == ["", "1-0", "2-0", "3-0"]


def test_what_was_dropped_meanwhile_is_said_to_be_a_gap(answers: list[Answer], headrace: Headrace) -> None:
    answers += [stream(Log("a").after("0-0"), breaks=True), stream(Log(*"abcd", dropped=3).after("1-0"))]
    shown = headrace(*FOLLOW, "--since", "0-0").out.splitlines()
    assert [one.rpartition(": ")[2] for one in (shown[0], shown[2])] == ["a", "d"]
    assert shown[1].startswith("gap: ")
    answers += [stream(Log(*"abcd", dropped=3).after("1-0"))]
    first, second = map(json.loads, headrace(*FOLLOW, "--json").out.splitlines())
    assert (first.keys(), second["sentence"]) == ({"gap"}, "d")


def test_an_instance_that_is_away_or_busy_meanwhile_is_asked_again(
    answers: list[Answer], headrace: Headrace
) -> None:
    def gone() -> httpx.Response:
        raise httpx.ConnectError("refused")

    busy = lambda: httpx.Response(503, json={"kind": "Busy", "detail": "200 others listen"})  # noqa: E731
    log = Log("a", "b")
    answers += [stream(log.after("0-0")[:-1].rpartition(b"id: 2-0")[0]), gone, busy, stream(log.after("1-0"))]
    shown = headrace(*FOLLOW)
    assert [one[-1] for one in shown.out.splitlines()] == ["a", "b"]
    for fact in ("200 others listen", "2 s, after event 1-0"):
        assert fact in shown.err


def test_at_first_nobody_there_and_what_will_not_pass_are_errors(
    answers: list[Answer], headrace: Headrace
) -> None:
    def gone() -> httpx.Response:
        raise httpx.ConnectError("refused")

    problem = {"kind": "InvalidRequest", "detail": "no id", "advice": ""}
    page = lambda: httpx.Response(200, headers={"content-type": "text/html"}, text="<html>")  # noqa: E731
    for answer, code, why in (
        (gone, 1, "no response"),
        (lambda: httpx.Response(400, json=problem), 2, "no id"),
        (page, 1, "not a Headrace instance"),
        (stream(b"id: x\n\n"), 1, "'x'"),
        (stream(b"id: 1-0\ndata: [\n\n"), 1, "JSON"),
        (stream(b"id: 1-0\ndata: []\n\n"), 1, "JSON object"),
    ):
        answers.append(answer)
        shown = headrace(*FOLLOW)
        assert (shown.code, shown.out) == (code, "")
        assert why in shown.err


def test_what_comes_from_the_service_is_escaped(answers: list[Answer], headrace: Headrace) -> None:
    hostile = "\x1b[2J\u202eevil\u2028headrace: all is well\x85\r"
    event = Log("x").after("0-0").replace(b'"x"', json.dumps(hostile, ensure_ascii=False).encode())
    answers.append(stream(event))
    (line,) = headrace(*FOLLOW).out.splitlines()
    assert line.endswith("\\x1b[2J\\u202eevil\\u2028headrace: all is well\\x85\\r")
    answers.append(stream(event))
    (line,) = headrace(*FOLLOW, "--json").out.splitlines()
    assert json.loads(line)["sentence"] == hostile
    answers.append(stream(b"event: gap\ndata: " + json.dumps({"reason": hostile}).encode() + b"\n\n"))
    assert headrace(*FOLLOW).out.startswith("gap: \\x1b[2J")
    answers.append(stream(b"id: 1-0\ndata: {}\n\n"))
    assert headrace(*FOLLOW).out == "? epoch None None: None\n"


def test_options_that_contradict_each_other_are_refused(site: Site, headrace: Headrace) -> None:
    assert headrace(*FOLLOW, "--limit", "3").code == 2
    assert headrace("events", "--since", "0-0").code == 2


def test_the_list_may_be_of_one_datastream(site: Site, headrace: Headrace) -> None:
    site.create("a", destination={"cluster": "destination", "name": "a.*"})
    site.create("b", destination={"cluster": "destination", "name": "b.*"})
    for name in "ab":
        site.client.post(f"/v1/datastreams/{name}/pause", json={"reason": f"of {name}"})
    assert "of a" in headrace("events").out
    shown = headrace("events", "--datastream", "b").out
    assert ("of b" in shown, "of a" in shown) == (True, False)


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_messages_are_the_same_however_they_are_cut(size: int) -> None:
    sent = Log("a", "b\u2028c").after("0-0") + b": nothing new\n\nid: 9-0\r\n\r\n"
    found = list(messages(sent[start : start + size] for start in range(0, len(sent), size)))
    assert [one.event["sentence"] for one in found if one.event] == ["a", "b\u2028c"]
    assert found[-1].identity == "9-0"


def test_a_line_without_an_end_is_not_kept_for_ever() -> None:
    with pytest.raises(HeadraceError, match="too long"):
        list(lines_of(b"x" * 1_000_000 for _ in range(100)))


def test_incidents_are_shown_with_their_timelines(site: Site, headrace: Headrace) -> None:
    late = IncidentRecord("orders-2", "orders", "east", 2_000).noted(2_000, Phase.DETECTED, "p99 is [9] s")
    costs = (BudgetCost("99 %", 0.5, 0.25), BudgetCost("50 %", None, 0.5))
    late = replace(late, cause="source-bound", bad_seconds=20.0, unknown_seconds=5.0, costs=costs)
    late = replace(late, gain=RebalanceGain(4_000, 60.0, None, 20.0))
    over = replace(IncidentRecord("clicks-1", "clicks", "east", 1_000), closed_ms=7_000)
    lost = replace(over, id="clicks-0", opened_ms=0)
    over = replace(over, deliveries=(DeliveryCost("p99 within 5 ms", 40, 2.0),))
    site.incidents = [late, over, lost]
    shown = headrace("incidents")
    assert shown.code == 0, shown.err
    facts: list[list[str]] = [
        ["orders", "east", "1970-01-01T00:00:02Z", "open"],
        ["source-bound", "20 s", "5 s", "25.0%", "99 %", "unknown", "50 %"],
        ["rebalance", "unknown", "40", "20"],
        ["1970-01-01T00:00:02Z", "detected", "p99 is [9] s"],
        ["clicks", "east", "1970-01-01T00:00:01Z", "1970-01-01T00:00:07Z"],
        ["0 ms", "2 of 40 records", "p99 within 5 ms"],
        ["clicks", "east", "1970-01-01T00:00:00Z", "1970-01-01T00:00:07Z"],
        ["0 ms", "unknown"],
    ]
    for line, some in zip(shown.out.splitlines(), facts, strict=True):
        assert re.search(".*".join(map(re.escape, some)), line), line
    assert "clicks" not in headrace("incidents", "--open").out
    assert "orders" not in headrace("incidents", "--closed").out
    (found,) = json.loads(headrace("incidents", "--datastream", "orders", "--json").out)
    assert found["id"] == "orders-2"
