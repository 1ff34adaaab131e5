"""Start position in the form that users write: a word or a timestamp. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from mirror.errors import InvalidRequest
from mirror.model import bounds
from mirror.model.datastreams.datastream import LATEST_START_MS, Datastream, StartPosition
from mirror.model.datastreams.metadata import RESTART, RESTART_WORDS

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_NUMBER: Final = 10**11
"""Smallest number that counts as epoch milliseconds. Smaller numbers are probably seconds."""
WORDS: Final = tuple(position.value for position in StartPosition if position is not StartPosition.TIMESTAMP)


class Start(NamedTuple):
    """Position at which a datastream starts.

    `at_ms`: start time (epoch ms), only for `StartPosition.TIMESTAMP`.
    """

    position: StartPosition
    at_ms: int | None = None

    def __str__(self) -> str:
        """Return the start position as text: a word, or a timestamp in ISO 8601."""
        if self.at_ms is None:
            return self.position.value
        moment = _EPOCH + timedelta(milliseconds=self.at_ms)
        return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Restart(NamedTuple):
    """The last restart of a datastream. Progress from before the restart is ignored. `at_ms`: time of the
    restart (epoch ms), 0 if there was none."""

    at_ms: int
    start: Start


def restart_of(datastream: Datastream) -> Restart:
    """Return the last restart of a datastream. Without one, return time 0 and its start position."""
    value = datastream.metadata.get(RESTART)
    if value is None:
        return Restart(0, Start(datastream.start, datastream.start_ms))
    at_ms, _, start = value.partition(" ")
    if start in RESTART_WORDS:
        return Restart(int(at_ms), Start(StartPosition(start)))
    return Restart(int(at_ms), Start(StartPosition.TIMESTAMP, int(start)))


def restarted(datastream: Datastream, start: str, now_ms: int) -> Datastream:
    """Return the definition after a restart at `start`.

    Raises InvalidRequest for a start that depends on committed offsets or the end of the log.
    """
    found = read_start("the start", start, RESTART_WORDS)
    at_ms = max(now_ms, restart_of(datastream).at_ms + 1)
    where = found.position.value if found.at_ms is None else str(found.at_ms)
    return replace(datastream, metadata={**datastream.metadata, RESTART: f"{at_ms} {where}"})


def read_start(label: str, value: object, words: Sequence[str] = WORDS) -> Start:
    """Parse a start position: a word, a timestamp, or epoch milliseconds. Raises InvalidRequest."""
    if isinstance(value, str) and value in words:
        return Start(StartPosition(value))
    if isinstance(value, str) and not (value.isascii() and value.isdecimal()):
        advice = f"write {', '.join(words)}, 2026-11-21T08:00:00Z, or epoch milliseconds"
        return Start(StartPosition.TIMESTAMP, _milliseconds(label, value, advice))
    if isinstance(value, str):
        value = bounds.digits(label, value, 0, LATEST_START_MS)
    at_ms = bounds.integer(label, value, 0, LATEST_START_MS)
    if at_ms < _FIRST_NUMBER:
        raise InvalidRequest(
            f"{label} {at_ms} is a time in the year {_EPOCH.year + at_ms // 31_556_952_000}",
            advice="write milliseconds, not seconds, or a timestamp such as 2026-11-21T08:00:00Z",
        )
    return Start(StartPosition.TIMESTAMP, at_ms)


def _milliseconds(label: str, text: str, advice: str) -> int:
    shown = bounds.shown(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidRequest(f"{label} cannot be {shown}", advice=advice) from None
    if moment.tzinfo is None:
        raise InvalidRequest(f"{label} {shown} has no time zone", advice="add Z or +02:00")
    since = moment - _EPOCH
    return bounds.integer(label, since // timedelta(milliseconds=1), 0, LATEST_START_MS)
