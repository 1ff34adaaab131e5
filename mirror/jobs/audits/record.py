"""Serialises the audit state of one lane, which is stored in the progress topic. Pure.

Readers ignore unknown fields. If a state is unreadable, the audit of the lane restarts from the beginning.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, Final

from mirror.audit.verdicts import Finding, Verdict
from mirror.audit.windows import COUNTED, WindowCounts
from mirror.jobs.partition_verdict import CopyHistory

FORMAT: Final = 1
MOST_FAULTS: Final = 20
MOST_WINDOWS: Final = 4
"""Maximum number of unfinished windows with stored counts. Further records may belong to these windows."""
FAULTS: Final = (Verdict.MISSING, Verdict.ALTERED, Verdict.FOREIGN, Verdict.DUPLICATED)


@dataclass(frozen=True, slots=True)
class WindowFault:
    """Unexplained differences of one kind in an event-time window.

    `start_ms`: start of the window. `source_offset`, `target_offset`: offsets of the first affected record on
    each cluster; -1 if that cluster lacks the record.
    """

    start_ms: int
    verdict: Verdict
    records: int
    source_offset: int
    target_offset: int


@dataclass(frozen=True, slots=True)
class OpenWindow:
    """Counts of an unfinished event-time window.

    `source`, `target`: first counted offset on each cluster. `is_part`: True if the earlier counts of the
    window are no longer stored.
    """

    start_ms: int
    source: int
    target: int
    counts: WindowCounts
    is_part: bool = False


@dataclass(frozen=True, slots=True)
class LaneAudit:
    """State of the audit of one lane, as stored.

    `position`: next source offset to audit. `target_next`: destination offset after the audited records.
    `through_ms`, `is_stopped`: see `PartitionWatermark`. `lane`: history of the lane as of the last run.
    `faults`: the first `MOST_FAULTS` faults. `more_faults`: number of further faults. `windows`: newest
    windows, in order. `closed_ms`: start of the newest window whose counts were discarded. `late`: start of
    the oldest window with overdue records, and the number of overdue offsets in this window. `row_ms`: latest
    time of any audit row of this lane.
    """

    position: int = 0
    target_next: int | None = None
    through_ms: int | None = None
    is_stopped: bool = False
    lane: CopyHistory | None = None
    faults: tuple[WindowFault, ...] = ()
    more_faults: int = 0
    windows: tuple[OpenWindow, ...] = ()
    closed_ms: int = -1
    late: tuple[int, int] | None = None
    row_ms: int = 0

    @property
    def saved(self) -> tuple[object, ...]:
        """Values that must be stored when they change. A new instance recomputes all other fields."""
        return self.position, self.target_next, self.is_stopped, self.faults, self.more_faults, self.late

    def with_counts(
        self, start_ms: int, counts: WindowCounts, begins: tuple[int, int]
    ) -> tuple[LaneAudit, OpenWindow]:
        """Add counts to an event-time window. Return the new state, and the total counts of the window.

        `begins`: source and destination offset at which the part begins.
        """
        known = {window.start_ms: window for window in self.windows}
        before, total = known.get(start_ms), WindowCounts()
        if before is None and start_ms <= self.closed_ms:
            return self, OpenWindow(start_ms, *begins, counts, is_part=True)
        if before is not None:
            total.add(before.counts)
            begins = before.source, before.target
        total.add(counts)
        window = known[start_ms] = OpenWindow(start_ms, *begins, total)
        late_ms = self.late[0] if self.late is not None else None
        removable = sorted(known.keys() - {late_ms})[: max(len(known) - MOST_WINDOWS, 0)]
        for each in removable:
            del known[each]
        closed_ms = max([self.closed_ms, *removable])
        return replace(
            self, windows=tuple(known[each] for each in sorted(known)), closed_ms=closed_ms
        ), window

    def with_window(self, start_ms: int, counts: WindowCounts, *, may_repeat: bool) -> LaneAudit:
        """Return the state with the faults in these counts of an event-time window added.

        `may_repeat`: duplicates are expected.
        """
        faults, more = {(fault.start_ms, fault.verdict): fault for fault in self.faults}, self.more_faults
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
                at = next((finding for finding in counts.findings if finding.verdict is verdict), None)
                places = (at.source_offset, at.target_offset) if at is not None else (-1, -1)
                faults[start_ms, verdict] = WindowFault(start_ms, verdict, number, *places)
        return replace(self, faults=tuple(faults.values()), more_faults=more)

    def without_past(self, source_start: int, target_start: int) -> LaneAudit:
        """Return the state without faults whose records have been deleted by retention.

        If the source had the record, the record expires by the retention of the source, otherwise by the
        retention of the destination.
        """
        kept = tuple(
            fault
            for fault in self.faults
            if (fault.source_offset >= source_start if fault.source_offset >= 0 else True)
            and (fault.source_offset >= 0 or fault.target_offset < 0 or fault.target_offset >= target_start)
        )
        if kept == self.faults:
            return self
        return replace(self, faults=kept, is_stopped=self.is_stopped and bool(kept))

    def write(self) -> bytes:
        lane = self.lane
        document = {
            "format": FORMAT,
            "position": self.position,
            "target_next": self.target_next,
            "through_ms": self.through_ms,
            "stopped": self.is_stopped,
            "lane": None if lane is None else [*lane[:2], lane.target_id.hex(), *lane[3:]],
            "faults": [
                [fault.start_ms, fault.verdict.value, fault.records, fault.source_offset, fault.target_offset]
                for fault in self.faults
            ],
            "more_faults": self.more_faults,
            "windows": [_window_document(window) for window in self.windows],
            "closed_ms": self.closed_ms,
            "late": self.late,
            "row_ms": self.row_ms,
        }
        return json.dumps(document, separators=(",", ":")).encode()


def read_lane_audit(value: bytes | None) -> LaneAudit:
    """Return the stored audit state, or a new state if it is missing or unreadable."""
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
            tuple(_window(row) for row in found.get("windows", ())[: MOST_WINDOWS + 1]),
            int(found.get("closed_ms", -1)),
            None if found.get("late") is None else (int(found["late"][0]), int(found["late"][1])),
            _number(found.get("row_ms")) or 0,
        )
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        return LaneAudit()


def _window_document(window: OpenWindow) -> list[Any]:
    counts = window.counts
    findings = [
        [finding.verdict.value, finding.source_offset, finding.target_offset, finding.timestamp, finding.what]
        for finding in counts.findings
    ]
    return [window.start_ms, window.source, window.target, counts.numbers, findings]


def _window(row: list[Any]) -> OpenWindow:
    start_ms, source, target, numbers, findings = row
    counts = WindowCounts()
    for name, number in zip(COUNTED, numbers, strict=True):
        setattr(counts, name, int(number))
    for verdict, *places, what in findings:
        source_offset, target_offset, timestamp = (int(number) for number in places)
        counts.note(Finding(Verdict(verdict), source_offset, target_offset, timestamp, str(what)))
    return OpenWindow(int(start_ms), int(source), int(target), counts)


def _fault(row: list[Any]) -> WindowFault:
    start_ms, verdict, *numbers = row
    records, source, target = (int(number) for number in numbers)
    return WindowFault(int(start_ms), Verdict(verdict), records, source, target)


def _history(row: list[Any]) -> CopyHistory:
    life, losses, target_id, *numbers = row
    return CopyHistory(int(life), int(losses), bytes.fromhex(target_id), *map(int, numbers))


def _number(value: object) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or value < 0:
        raise ValueError(value)
    return value
