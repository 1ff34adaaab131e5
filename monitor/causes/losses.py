"""Selects the losses of processes that can explain late records, because they happened at the right time.
Pure.

Lanes remember the loss of a process for some minutes. A loss long before the first late record was produced,
or after the last late record arrived, does not explain the late records.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from monitor.causes.evidence import LOSSES, Evidence, LaneEvidence

_NOTICED_MS: Final = 5_000
"""Tolerance for clock differences, report intervals and the delay of detecting a loss."""


def with_explaining_losses(evidence: Evidence, limit_ms: float) -> Evidence:
    """Remove losses of processes that cannot explain the late records from the evidence.

    If the times of the late records are unknown, nothing is removed. `limit_ms`: age above which records are
    late.
    """
    if not evidence.late:
        return evidence
    lanes = tuple(
        lane if _explains(lane, evidence, limit_ms) else replace(lane, origin=None, origin_ms=None, lost="")
        for lane in evidence.lanes
    )
    return replace(evidence, lanes=lanes)


def _explains(lane: LaneEvidence, evidence: Evidence, limit_ms: float) -> bool:
    if lane.origin not in LOSSES or lane.origin_ms is None:
        return True
    return any(
        first - limit_ms - _NOTICED_MS <= lane.origin_ms <= last + _NOTICED_MS
        for first, last in evidence.late
    )
