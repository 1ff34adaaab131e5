"""Follows live events of the service (Server-Sent Events), and reconnects."""

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
class StreamMessage:
    """A message of an event stream.

    `identity`: event id after which to resume. `event`: the event, None if the message contains none. `gap`:
    reason why earlier events were missed, or an empty string.
    """

    identity: str
    event: dict[str, Any] | None = None
    gap: str = ""


def follow(
    client: RestClient,
    since: str,
    datastream: str,
    show: Callable[[StreamMessage], None],
    note: Callable[[str], None],
    sleep: Callable[[float], None],
) -> None:
    """Call `show` with every event of the service after `since`. Never ends.

    If `since` is empty, the next event is the first. After a lost connection, the stream resumes with the
    next retained event.

    Raises Unreachable if the first connection fails, and HeadraceError for errors that cannot be retried.
    """
    last, has_begun, pause = since, False, _FIRST_SECONDS
    more = {"datastream": datastream} if datastream else {}
    while True:
        reason = "the instance closed the stream"
        try:
            headers = {"Accept": MEDIA_TYPE, **({"Last-Event-ID": last} if last else {})}
            with client.stream(EVENTS, headers, **more) as chunks:
                for message in messages(chunks):
                    has_begun, pause = True, _FIRST_SECONDS
                    last = message.identity or last
                    if message.event is not None or message.gap:
                        show(message)
        except HeadraceError as error:
            if not (has_begun and error.retriable):
                raise
            reason = error.message
        note(f"{reason}; retrying in {pause:g} s, after event {last or 'none'}")
        sleep(pause)
        pause = min(2 * pause, _MOST_SECONDS)


def messages(chunks: Iterable[bytes]) -> Iterator[StreamMessage]:
    """Yield the messages of an event stream. Raises HeadraceError for data that is not an event stream.

    Comments (heartbeats) are skipped. A message with only an id advances the position.
    """
    fields: dict[str, str] = {}
    for line in lines_of(chunks):
        if line:
            name, _, value = line.partition(":")
            if name in ("id", "event", "data"):
                fields[name] = value.removeprefix(" ")
            continue
        if fields:
            yield _message_of(fields)
        fields = {}


def lines_of(chunks: Iterable[bytes]) -> Iterator[str]:
    """Yield the lines of a byte stream, split at line feeds only. Raises HeadraceError if a line is too long.

    Texts may contain other line separators. An incomplete last line is dropped.
    """
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line.removesuffix(b"\r").decode(errors="replace")
        if len(rest) > _LONGEST_LINE:
            raise HeadraceError("invalid event stream: line too long")


def _message_of(fields: dict[str, str]) -> StreamMessage:
    identity = fields.get("id", "")
    if identity and not _ID.fullmatch(identity):
        raise HeadraceError(f"invalid event stream: {identity[:100]!r} is not an event id")
    if "data" not in fields:
        return StreamMessage(identity)
    try:
        event = json.loads(fields["data"])
    except ValueError as error:
        raise HeadraceError("invalid event stream: data is not JSON") from error
    if not isinstance(event, dict):
        raise HeadraceError("invalid event stream: data is not a JSON object")
    if fields.get("event") == "gap":
        return StreamMessage(identity, gap=str(event.get("reason") or "events were missed"))
    return StreamMessage(identity, event)
