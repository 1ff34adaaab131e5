"""Stored state of the audit of one lane: a record beside the lane's progress. Pure codec.

Readers ignore unknown fields. A state that cannot be read is dropped: the lane is audited from its start.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, Final

from mirror.audit.verdicts import Verdict
from mirror.audit.windows import WindowCounts
from mirror.jobs.partition_verdict import CopyHistory

FORMAT: Final = 1
MOST_FAULTS: Final = 20
FAULTS: Final = (Verdict.MISSING, Verdict.ALTERED, Verdict.FOREIGN, Verdict.DUPLICATED)


@dataclass(frozen=True, slots=True)
class WindowFault:
    """Differences of one kind in a window that nothing explains. `start_ms`: start of the window. Offsets of
    the first record; -1 if a side lacks it."""

    start_ms: int
    verdict: Verdict
    records: int
    source_offset: int
    target_offset: int


@dataclass(frozen=True, slots=True)
class LaneAudit:
    """State of an audit. `position`: next source offset to audit; `target_next`: destination offset after the
    audited records. `through_ms`, `is_stopped`: see `PartitionWatermark`. `lane`: history of the lane as of
    the last turn. `faults`: the first of them; `more_faults`: number of further ones."""

    position: int = 0
    target_next: int | None = None
    through_ms: int | None = None
    is_stopped: bool = False
    lane: CopyHistory | None = None
    faults: tuple[WindowFault, ...] = ()
    more_faults: int = 0

    @property
    def saved(self) -> tuple[object, ...]:
        """Fields whose change is stored. A new instance finds the others in its first turn."""
        return self.position, self.target_next, self.is_stopped, self.faults, self.more_faults

    def with_window(self, start_ms: int, counts: WindowCounts, *, may_repeat: bool) -> LaneAudit:
        """Return the state after another part of a window. `may_repeat`: duplicates are explained."""
        faults, more = {(one.start_ms, one.verdict): one for one in self.faults}, self.more_faults
        for verdict in FAULTS:
            number = getattr(counts, verdict.value)
            if not number or (verdict is Verdict.DUPLICATED and may_repeat):
                continue
            before = faults.get((start_ms, verdict))
            if before is not None:
                faults[start_ms, verdict] = replace(before, records=before.records + number)
            elif len(faults) >= MOST_FAULTS:
                more += 1
            else:
                at = next((one for one in counts.findings if one.verdict is verdict), None)
                places = (at.source_offset, at.target_offset) if at is not None else (-1, -1)
                faults[start_ms, verdict] = WindowFault(start_ms, verdict, number, *places)
        return replace(self, faults=tuple(faults.values()), more_faults=more)

    def without_past(self, source_start: int, target_start: int) -> LaneAudit:
        """Return the state without differences in records that retention has since removed: of the source if
        it had the record, otherwise of the destination."""
        kept = tuple(
            one
            for one in self.faults
            if (one.source_offset >= source_start if one.source_offset >= 0 else True)
            and (one.source_offset >= 0 or one.target_offset < 0 or one.target_offset >= target_start)
        )
        if kept == self.faults:
            return self
        return replace(self, faults=kept, is_stopped=self.is_stopped and bool(kept))

    def write(self) -> bytes:
        """Return the stored form."""
        lane = self.lane
        document = {
            "format": FORMAT,
            "position": self.position,
            "target_next": self.target_next,
            "through_ms": self.through_ms,
            "stopped": self.is_stopped,
            "lane": None if lane is None else [*lane[:2], lane.target_id.hex(), *lane[3:]],
            "faults": [
                [one.start_ms, one.verdict.value, one.records, one.source_offset, one.target_offset]
                for one in self.faults
            ],
            "more_faults": self.more_faults,
        }
        return json.dumps(document, separators=(",", ":")).encode()


def read_lane_audit(value: bytes | None) -> LaneAudit:
    """Return a stored state; a new one if there is none or it is unreadable."""
    if value is None:
        return LaneAudit()
    try:
        found = json.loads(value)
        if found["format"] > FORMAT:
            return LaneAudit()
        lane = found["lane"]
        return LaneAudit(
            _number(found["position"]) or 0,
            _number(found["target_next"]),
            _number(found["through_ms"]),
            bool(found["stopped"]),
            None if lane is None else _history(lane),
            tuple(_fault(row) for row in found["faults"][:MOST_FAULTS]),
            _number(found["more_faults"]) or 0,
        )
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        return LaneAudit()


def _fault(row: list[Any]) -> WindowFault:
    start_ms, verdict, *numbers = row
    records, source, target = (int(number) for number in numbers)
    return WindowFault(int(start_ms), Verdict(verdict), records, source, target)


def _history(row: list[Any]) -> CopyHistory:
    life, losses, target_id, checkpoint, target_end = row
    return CopyHistory(int(life), int(losses), bytes.fromhex(target_id), int(checkpoint), int(target_end))


def _number(value: object) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or value < 0:
        raise ValueError(value)
    return value
