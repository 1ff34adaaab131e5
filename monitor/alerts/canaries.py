"""Alerts about canaries. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from mirror.model.identifiers import DatastreamName
from mirror.wording import counted
from monitor.alerts.alert import Alert, AlertKey
from monitor.alerts.catalogue import CANARY_LOST, CANARY_UNAVAILABLE
from monitor.canary.canary_watch import CanaryState
from monitor.canary.ledger import DUE_SECONDS

LOST_SECONDS: Final = 900.0
"""Seconds after the latest loss for which the alert about lost canary records continues."""
_LEAST_AVAILABILITY: Final = 0.9
_SILENT_SECONDS: Final = 300.0
"""Seconds within which the first canary record must arrive.

In this time, the leader finds the canary topic at the source and creates its copy.
"""


def canary_alerts(
    states: Mapping[DatastreamName, CanaryState] | None, now_ms: int, firing: Sequence[Alert]
) -> Iterator[Alert]:
    """Yield an alert for each canary whose current state requires one.

    `states`: None if the canaries are unknown. `firing`: alerts that fire, including those of a previous
    monitor. A canary that was just started has no figures of its predecessor, so an alert continues until its
    end if it reports a loss, and until its condition can be observed if the canary is unavailable.
    """
    # Copies, because alerts passed on unchanged count as inherited and are not sent to receivers again.
    known = {alert.key: replace(alert) for alert in firing if alert.kind in (CANARY_LOST, CANARY_UNAVAILABLE)}
    if states is None:
        yield from known.values()
        return
    for name, state in states.items():
        lost = known.get(AlertKey(CANARY_LOST.name, name))
        if (own := _loss(name, state, now_ms)) is not None:
            yield own
        elif lost is not None and lost.cluster == state.path.source and lost.until_ms > now_ms:
            yield lost
        failing = known.get(AlertKey(CANARY_UNAVAILABLE.name, name))
        if text := "; ".join(_unavailable(state)):
            yield Alert(CANARY_UNAVAILABLE, f"the canary of {name} fails", text, 0, name, state.path.source)
        elif failing is not None and failing.cluster == state.path.source and _is_unknown(state):
            yield failing


def _loss(name: DatastreamName, state: CanaryState, now_ms: int) -> Alert | None:
    figures = state.figures
    if figures.lost_seconds is None or figures.lost_seconds >= LOST_SECONDS:
        return None
    lost = counted(figures.lost, "canary record")
    text = f"{lost} of the {figures.produced} acknowledged did not arrive in {state.path.copy}"
    until_ms = now_ms + int((LOST_SECONDS - figures.lost_seconds) * 1_000)
    summary = f"{name} has lost canary records"
    return Alert(CANARY_LOST, summary, text, 0, name, state.path.source, until_ms=until_ms)


def _is_unknown(state: CanaryState) -> bool:
    """Return whether no record could arrive since the canary was started."""
    return state.figures.consumed == 0


def _unavailable(state: CanaryState) -> Iterator[str]:
    figures, path = state.figures, state.path
    written, arrived = figures.produce_availability, figures.consume_availability
    if written is not None and written < _LEAST_AVAILABILITY:
        yield f"{path.source} acknowledged {written:.0%} of the writes in the last minute"
    if arrived is not None and arrived < _LEAST_AVAILABILITY:
        yield f"{arrived:.0%} of the records arrived at {path.destination} within {DUE_SECONDS:.0f} s"
    if figures.silent_seconds is not None and figures.silent_seconds >= _SILENT_SECONDS:
        yield f"no record has arrived at {path.destination} for {figures.silent_seconds:.0f} s"
    if state.problem:
        yield state.problem
