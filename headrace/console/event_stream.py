"""The service's events as they happen (Server-Sent Events), resumed where a connection was lost."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from headrace.console.client import RestClient
from mirror.control.event_positions import POSITION
from mirror.errors import HeadraceError

EVENTS: Final = "/v1/events"
MEDIA_TYPE: Final = "text/event-stream"
_FIRST_SECONDS: Final = 0.5
_MOST_SECONDS: Final = 15.0
_LONGEST_LINE: Final = 4 * 1024 * 1024
_ID: Final = re.compile(POSITION)


@dataclass(frozen=True, slots=True)
class Told:
    """One message. `identity`: what is resumed after it. `gap`: why events before this point were missed;
    else `event` is one."""

    identity: str
    event: dict[str, Any] | None = None
    gap: str = ""


def follow(
    client: RestClient,
    since: str,
    datastream: str,
    tell: Callable[[Told], None],
    note: Callable[[str], None],
    sleep: Callable[[float], None],
) -> None:
    """Tell every event after `since` (empty: from now on), for ever. Where the connection is lost, or the
    instance stops, it is made again and nothing is missed that is still kept.

    Raises Unreachable where nobody answers at first; HeadraceError for what will not pass.
    """
    last, has_begun, pause = since, False, _FIRST_SECONDS
    more = {"datastream": datastream} if datastream else {}
    while True:
        reason = "the instance has ended the stream"
        try:
            headers = {"Accept": MEDIA_TYPE, **({"Last-Event-ID": last} if last else {})}
            with client.stream(EVENTS, headers, **more) as chunks:
                for told in messages(chunks):
                    has_begun, pause = True, _FIRST_SECONDS
                    last = told.identity or last
                    if told.event is not None or told.gap:
                        tell(told)
        except HeadraceError as error:
            if not (has_begun and error.retriable):
                raise
            reason = error.message
        note(f"{reason}; tries again in {pause:g} s, after event {last or 'none'}")
        sleep(pause)
        pause = min(2 * pause, _MOST_SECONDS)


def messages(chunks: Iterable[bytes]) -> Iterator[Told]:
    """The messages of a stream; comments, which are signs of life, are none. An id without an event moves
    the position. Raises HeadraceError for what is no stream of events."""
    fields: dict[str, str] = {}
    for line in lines_of(chunks):
        if line:
            name, _, value = line.partition(":")
            if name in ("id", "event", "data"):
                fields[name] = value.removeprefix(" ")
            continue
        if fields:
            yield _told(fields)
        fields = {}


def lines_of(chunks: Iterable[bytes]) -> Iterator[str]:
    """Lines end with a line feed alone: a text may hold what other readers end lines at. A line that has not
    ended is of no use."""
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line.removesuffix(b"\r").decode(errors="replace")
        if len(rest) > _LONGEST_LINE:
            raise HeadraceError("a line of the events does not end")


def _told(fields: dict[str, str]) -> Told:
    identity = fields.get("id", "")
    if identity and not _ID.fullmatch(identity):
        raise HeadraceError(f"what answers sends no events: {identity[:100]!r} is no id of one")
    if "data" not in fields:
        return Told(identity)
    try:
        event = json.loads(fields["data"])
    except ValueError as error:
        raise HeadraceError("what answers sends no events: their data is no JSON") from error
    if not isinstance(event, dict):
        raise HeadraceError("what answers sends no events: their data is no JSON object")
    if fields.get("event") == "gap":
        return Told(identity, gap=str(event.get("reason") or "events were missed"))
    return Told(identity, event)
