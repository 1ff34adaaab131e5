"""Losses of processes that explain late records, by their times. Pure.

A process lost long before the first late record was sent, or after the last one arrived, does not explain
them, although its lanes remember it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from monitor.causes.evidence import LOSSES, Evidence, LaneEvidence

_NOTICED_MS: Final = 5_000
"""Time by which clocks, reports and the detection of a loss may differ."""


def with_explaining_losses(evidence: Evidence, limit_ms: float) -> Evidence:
    """Return the evidence without losses that cannot explain the late records; unchanged if their times are
    unknown. `limit_ms`: age from which records are late."""
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
