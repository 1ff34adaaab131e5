"""From what partitions do to alerts of their datastream. Pure.

One alert for each state, however many partitions are in it; the number and the worst of them are annotations.
That a cluster does not answer is an alert of the cluster (`clusters.py`).
What a person has paused and what a quota holds back is no alert; neither is WARN: where that is too late, the
objective says so. What catches up is a warning where that takes long. That the source will delete records
before they are copied is an alert of its own, whatever the state: also where a person has paused them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from mirror.model.identifiers import DatastreamName
from mirror.wording import counted, duration_text
from monitor.alerts.alert import Alert, AlertKind, rfc3339
from monitor.alerts.catalogue import (
    CATCHING_UP,
    DESTINATION_AWAY,
    LOSS_AHEAD,
    PAUSED,
    RECREATED,
    REWOUND,
    SOURCE_AWAY,
    STALLED,
    STOPPED,
    TRANSACTION,
    TRUNCATED,
)
from monitor.movement.states import MovementState
from monitor.movement.summary import LossAhead, Movement, Moving, StateCount

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
    MovementState.STALL: "with records to read and no progress",
    MovementState.STOP: "copied by nobody",
    MovementState.REWIND: "copied once more",
    MovementState.PAUSED_BY_ITSELF: "paused by itself",
    MovementState.SOURCE_AWAY: "waiting for the source",
    MovementState.DESTINATION_AWAY: "waiting for the destination",
    MovementState.TRUNCATED: "with records lost at the source",
    MovementState.RECREATED: "of a topic that was created again",
    MovementState.WAITING_FOR_TRANSACTION: "waiting for an open transaction",
    MovementState.CATCHING_UP: "still catching up",
}
_OF_TRAFFIC: Final = frozenset({MovementState.STALL, MovementState.STOP, MovementState.CATCHING_UP})
"""States that matter to nobody where nothing waits and nothing arrives."""
OF_CLUSTERS: Final = frozenset({SOURCE_AWAY, DESTINATION_AWAY})
OF_PARTITIONS: Final = frozenset({LOSS_AHEAD, *_KINDS.values(), *OF_CLUSTERS})
"""Kinds that say what partitions do, of datastreams with an objective and without one."""


def state_alerts(name: DatastreamName, one: Moving) -> Iterator[Alert]:
    """One for each state; when it began is added later."""
    for count in one.movement.states:
        kind = _KINDS.get(count.state)
        if kind is not None and not (count.is_idle and count.state in _OF_TRAFFIC):
            summary = f"{name}: {counted(count.partitions, 'partition')} {_SAYS[count.state]}"
            yield Alert(
                kind,
                summary,
                _said(count),
                count.since_ms or 0,
                name,
                one.cluster,
                partitions=count.partitions,
                worst=count.worst,
            )


def loss_alert(
    name: DatastreamName, one: Moving, within_seconds: float, least_share: float = 0.0
) -> Alert | None:
    """Where records will be deleted within that time before they are copied, and at least that share of what
    the source keeps waits, as far as that is known."""
    loss = one.movement.loss
    if loss is None or loss.seconds > within_seconds:
        return None
    if loss.share is not None and loss.share < least_share:
        return None
    when = f"in {duration_text(loss.seconds)}" if loss.seconds > 0 else "now"
    summary = f"data of {name} are lost {when}"
    said = f"the source deletes records of {loss.worst} {when}, {_catching_up(loss)}"
    if loss.partitions > 1:
        said += f"; {counted(loss.partitions, 'partition')} will lose records"
    return Alert(
        LOSS_AHEAD, summary, said, 0, name, one.cluster, partitions=loss.partitions, worst=loss.worst
    )


def partitions_text(movement: Movement) -> str:
    """What partitions do, for the description of another alert; empty where none of them is the matter."""
    counts = [count for count in movement.states if count.state in _SAYS]
    return "; ".join(
        f"{counted(one.partitions, 'partition')} {_SAYS[one.state]} ({one.worst})" for one in counts
    )


def _said(count: StateCount) -> str:
    since = "" if count.since_ms is None else f" since {rfc3339(count.since_ms)}"
    among = "" if count.partitions == 1 else " for longest"
    return f"{count.worst}{among}{since}: {count.reason or count.state.value}"


def _catching_up(loss: LossAhead) -> str:
    if loss.eta_seconds is None:
        return "and it does not catch up"
    return f"and catching up takes {duration_text(loss.eta_seconds)}"
