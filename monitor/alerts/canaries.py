"""Alerts about canaries. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from mirror.model.identifiers import DatastreamName
from mirror.wording import counted
from monitor.alerts.alert import Alert
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


def canary_alerts(states: Mapping[DatastreamName, CanaryState]) -> Iterator[Alert]:
    """Yield an alert for each canary whose current state requires one."""
    for name, state in states.items():
        cluster, figures = state.path.source, state.figures
        if figures.lost_seconds is not None and figures.lost_seconds < LOST_SECONDS:
            lost = counted(figures.lost, "canary record")
            summary = f"{name} has lost canary records"
            text = f"{lost} of the {figures.produced} acknowledged did not arrive in {state.path.copy}"
            yield Alert(CANARY_LOST, summary, text, 0, name, cluster)
        if text := "; ".join(_unavailable(state)):
            yield Alert(CANARY_UNAVAILABLE, f"the canary of {name} fails", text, 0, name, cluster)


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
