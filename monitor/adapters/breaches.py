"""Reads the durations of past breaches from closed incidents."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from mirror.bulkheads import Bulkhead
from mirror.loggers import get_logger
from mirror.model.reasons import reason_of
from monitor.actions import PastBreach
from monitor.records.record import IncidentRecord

_log = get_logger(__name__)
MOST: Final = 50
"""Maximum number of incidents per datastream, latest first. Older incidents are ignored because loads
change."""
_ASKED_FOR: Final = re.compile(r"\brebalance r-\d+ (?:asked for|requested)\b")
"""Matches timeline entries about requested rebalances. Earlier versions wrote "asked for" instead of
"requested"."""


def from_records(records: Iterable[IncidentRecord], datastream: str) -> tuple[PastBreach, ...]:
    """Return the past breaches of a datastream. `records`: its incidents, latest first."""
    mine = (record for record in records if record.datastream == datastream)
    found = [
        _breach(breach.opened_ms, breach.closed_ms, breach.gain, (entry.text for entry in breach.timeline))
        for breach in mine
        if breach.closed_ms is not None
    ]
    return tuple(found[:MOST])


def from_answers(answers: Iterable[Mapping[str, Any]]) -> tuple[PastBreach, ...]:
    """Return the past breaches of a datastream from the REST interface's list of incidents."""
    return tuple(
        _breach(
            answer["opened_ms"],
            answer["closed_ms"],
            answer.get("gain"),
            (entry["text"] for entry in answer["timeline"]),
        )
        for answer in answers
    )


def known_past(read: Callable[[], tuple[PastBreach, ...]]) -> tuple[PastBreach, ...]:
    """Return the past breaches; empty if the incidents cannot be read, which must not delay a rebalance."""
    with Bulkhead(lambda error: _log.warning("past breaches unknown", reason=reason_of(error))):
        return read()
    return ()


def _breach(opened_ms: int, closed_ms: int, gain: object, texts: Iterable[str]) -> PastBreach:
    """Return the past breach that a closed incident describes.

    `gain`: None if no rebalance was requested. Older records have no gain; there, an entry of the timeline
    shows that a rebalance was requested. A shortened timeline may have lost this entry.
    """
    was_helped = gain is not None or any(map(_ASKED_FOR.search, texts))
    return PastBreach((closed_ms - opened_ms) / 1000, was_helped)
