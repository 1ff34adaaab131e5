"""What incidents that are over say of how long breaches last."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import structlog

from mirror.errors import HeadraceError
from monitor.actions.worth import PastBreach
from monitor.records.record import IncidentRecord

_log = structlog.get_logger(__name__)
MOST: Final = 50
"""Of a datastream, the newest; older ones were of another load."""
_ASKED_FOR: Final = re.compile(r"\brebalance r-\d+ asked for\b")
"""As the monitor says it of what it did."""


def from_records(records: Iterable[IncidentRecord], datastream: str) -> tuple[PastBreach, ...]:
    """Of one datastream; `records`: the newest first."""
    mine = (one for one in records if one.datastream == datastream)
    found = [
        _breach(one.opened_ms, one.closed_ms, one.gain, (entry.text for entry in one.timeline))
        for one in mine
        if one.closed_ms is not None
    ]
    return tuple(found[:MOST])


def from_answers(answers: Iterable[Mapping[str, Any]]) -> tuple[PastBreach, ...]:
    """As REST has them."""
    return tuple(
        _breach(
            one["opened_ms"], one["closed_ms"], one.get("gain"), (entry["text"] for entry in one["timeline"])
        )
        for one in answers
    )


def known_past(read: Callable[[], tuple[PastBreach, ...]]) -> tuple[PastBreach, ...]:
    """None at all where incidents cannot be read now: a rebalance does not wait for that."""
    try:
        return read()
    except HeadraceError as error:
        _log.warning("how long breaches last is not known", reason=str(error))
        return ()


def _breach(opened_ms: int, closed_ms: int, gain: object, texts: Iterable[str]) -> PastBreach:
    """`gain`: None where no rebalance was asked for, or by a version that did not keep it; of a long timeline
    what was done first is left out."""
    was_helped = gain is not None or any(map(_ASKED_FOR.search, texts))
    return PastBreach((closed_ms - opened_ms) / 1000, was_helped)
