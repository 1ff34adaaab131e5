"""Alerts about the states of a datastream's partitions. Pure.

There is one alert per state. The annotations of the alert contain the number of partitions and the most
affected partition. A cluster that does not respond has its own alert (see `clusters.py`). Partitions in the
state WARN, or throttled by a quota, have no alert, because the latency objective covers their records.
Partitions that take long to catch up, or that an operator paused long ago, cause a warning. If the source is
about to delete uncopied records, a separate alert fires in any state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from mirror.model.identifiers import DatastreamName
from mirror.wording import counted, duration_text
from monitor.alerts.alert import Alert, AlertKind, rfc3339
from monitor.alerts.catalogue import (
    CATCHING_UP,
    LONG_PAUSE,
    LOSS_AHEAD,
    PAUSED,
    RECREATED,
    REWOUND,
    STALLED,
    STOPPED,
    TRANSACTION,
    TRUNCATED,
)
from monitor.movement.states import MovementState
from monitor.movement.summary import DatastreamStates, LossAhead, Movement, StateCount

_KINDS: Final[Mapping[MovementState, AlertKind]] = {
    MovementState.STALL: STALLED,
    MovementState.STOP: STOPPED,
    MovementState.REWIND: REWOUND,
    MovementState.PAUSED_BY_ITSELF: PAUSED,
    MovementState.TRUNCATED: TRUNCATED,
    MovementState.RECREATED: RECREATED,
    MovementState.WAITING_FOR_TRANSACTION: TRANSACTION,
    MovementState.CATCHING_UP: CATCHING_UP,
}
_SAYS: Final[Mapping[MovementState, str]] = {
    MovementState.STALL: "stalled with records to read",
    MovementState.STOP: "not being copied",
    MovementState.REWIND: "copying records a second time",
    MovementState.PAUSED_BY_ITSELF: "paused on an error",
    MovementState.SOURCE_AWAY: "waiting for the source",
    MovementState.DESTINATION_AWAY: "waiting for the destination",
    MovementState.TRUNCATED: "halted after data loss at the source",
    MovementState.RECREATED: "halted because the source topic was recreated",
    MovementState.WAITING_FOR_TRANSACTION: "waiting for an open transaction",
    MovementState.CATCHING_UP: "still catching up",
}
_OF_TRAFFIC: Final = frozenset({MovementState.STALL, MovementState.STOP, MovementState.CATCHING_UP})
"""States that cause no alert while no records wait or arrive."""


def state_alerts(name: DatastreamName, datastream_states: DatastreamStates) -> Iterator[Alert]:
    """Yield an alert for each state of a datastream's partitions. `Conditions` sets the start of each
    alert."""
    for count in datastream_states.movement.states:
        kind = _KINDS.get(count.state)
        if kind is not None and not (count.is_idle and count.state in _OF_TRAFFIC):
            yield _alert(kind, name, datastream_states.cluster, count, _SAYS[count.state])


def pause_alert(
    name: DatastreamName, datastream_states: DatastreamStates, now_ms: int, after_seconds: float
) -> Alert | None:
    """Return the alert about partitions that an operator paused more than `after_seconds` ago; None if there
    are none."""
    for count in datastream_states.movement.states:
        is_pause = count.state is MovementState.PAUSED_BY_USER and count.since_ms is not None
        if is_pause and now_ms - (count.since_ms or now_ms) >= after_seconds * 1_000:
            return _alert(LONG_PAUSE, name, datastream_states.cluster, count, "paused by an operator")
    return None


def _alert(kind: AlertKind, name: DatastreamName, cluster: str, count: StateCount, text: str) -> Alert:
    summary, since_ms = f"{name}: {counted(count.partitions, 'partition')} {text}", count.since_ms or 0
    return Alert(
        kind,
        summary,
        _count_text(count),
        since_ms,
        name,
        cluster,
        partitions=count.partitions,
        worst=count.worst,
    )


def loss_alert(
    name: DatastreamName, datastream_states: DatastreamStates, within_seconds: float, least_share: float = 0.0
) -> Alert | None:
    """Return the alert about uncopied records that the source will soon delete, or None.

    `within_seconds`: time until the deletion. Returns None if no record will be deleted in this time, or if
    the backlog is below `least_share` of the source log.
    """
    loss = datastream_states.movement.loss
    if loss is None or loss.seconds > within_seconds:
        return None
    if loss.share is not None and loss.share < least_share:
        return None
    when = f"in {duration_text(loss.seconds)}" if loss.seconds > 0 else "now"
    summary = f"{name} will lose records {when}"
    text = f"the source deletes uncopied records of {loss.worst} {when}, {_catching_up(loss)}"
    if loss.partitions > 1:
        text += f"; {counted(loss.partitions, 'partition')} will lose records"
    return Alert(
        LOSS_AHEAD,
        summary,
        text,
        0,
        name,
        datastream_states.cluster,
        partitions=loss.partitions,
        worst=loss.worst,
    )


def partitions_text(movement: Movement) -> str:
    """Describe the problems of partitions as part of another alert's text; empty if there are none."""
    counts = [count for count in movement.states if count.state in _SAYS]
    return "; ".join(
        f"{counted(count.partitions, 'partition')} {_SAYS[count.state]} ({count.worst})" for count in counts
    )


def _count_text(count: StateCount) -> str:
    since = "" if count.since_ms is None else f" since {rfc3339(count.since_ms)}"
    among = "" if count.partitions == 1 else " longest"
    return f"{count.worst}{among}{since}: {count.text or count.state.value}"


def _catching_up(loss: LossAhead) -> str:
    if loss.eta_seconds is None:
        return "and the partition does not catch up"
    return f"but catching up takes {duration_text(loss.eta_seconds)}"
