"""Reports on lanes as plain values: offset range, offset classes, offset map and state."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from mirror.lane.counters import LaneCounters
from mirror.lane.lane import Lane
from mirror.lane.lifecycle import LaneState
from mirror.lane.out_batch import Path
from mirror.replication.reports.copy_costs import cost_of
from mirror.replication.reports.measurements import lag_records


@dataclass(frozen=True, slots=True)
class LaneReport:
    """Report on a lane since this engine started it. `offsets` (for each class) and `map_runs` also cover
    earlier times.

    `bytes`: fetched size; `payload_bytes`: size before compression, if known. `foreign_records`: destination
    offsets that other producers wrote between records of the lane. `in_flight`: offsets from `next_offset` on
    that were read, but have no class yet. `seconds`: time since the engine started the lane. `cost_us`: CPU
    time in microseconds, as estimated by `cost_of`.
    """

    group: str
    topic: str
    partition: int
    destination_topic: str
    state: str
    reason: str
    start_offset: int
    next_offset: int
    in_flight: int
    source_end: int
    lag: int
    offsets: dict[str, int]
    records: int
    bytes: int
    payload_bytes: int
    source_batches: int
    batches: dict[str, int]
    map_runs: int
    foreign_records: int
    gaps: list[str]
    life: int
    seconds: float
    cost_us: float

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain values for JSON."""
        return asdict(self)


class LaneSums(NamedTuple):
    """Sums of counters and offsets over several lanes.

    `fenced`: number of lanes that another owner has taken. `unknown`: number of lanes whose current lag is
    unknown, because the source does not respond or they cannot send requests to it; `lag` includes the last
    known lag of these lanes.
    """

    records: int
    bytes: int
    lag: int
    fenced: int
    unknown: int


def sums_of(lanes: Iterable[Lane]) -> LaneSums:
    """Return the counters and offsets summed over the given lanes."""
    records = size = lag = fenced = unknown = 0
    for lane in lanes:
        for counters in (lane.observed.counters, lane.observed.totals):
            if counters is not None:
                records += counters.records_copied
                size += counters.bytes_copied
        lag += lag_records(lane)
        unknown += (
            lane.read.high_watermark < 0 or lane.state is LaneState.PAUSED or bool(lane.observed.stalled_by)
        )
        fenced += lane.state is LaneState.PAUSED and lane.pause is not None and lane.pause.lasting
    return LaneSums(records, size, lag, fenced, unknown)


def report_of(lane: Lane, now: float) -> LaneReport:
    """Return the report of a lane at `now` (monotonic seconds)."""
    sums = LaneCounters()
    if lane.observed.totals is not None:
        sums.add(lane.observed.totals)
    sums.add(lane.observed.counters)
    return LaneReport(
        group=lane.key.group,
        topic=lane.key.partition.topic,
        partition=lane.key.partition.partition,
        destination_topic=lane.spec.destination_topic,
        state=lane.state.value,
        reason=lane.pause.text if lane.pause else lane.observed.stalled_by or lane.observed.held_by,
        start_offset=lane.progress.ledger.start,
        next_offset=lane.checkpoint,
        in_flight=max(lane.read.position - lane.checkpoint, 0),
        source_end=lane.read.high_watermark,
        lag=lag_records(lane),
        offsets=lane.progress.ledger.by_class(),
        records=sums.records_copied,
        bytes=sums.bytes_copied,
        payload_bytes=sums.uncompressed_bytes,
        source_batches=sums.source_batches,
        batches={path.name.lower(): sums.batches_by_path[path] for path in Path},
        map_runs=len(lane.progress.offset_map),
        foreign_records=lane.observed.foreign_records,
        gaps=list(lane.progress.gaps),
        life=lane.progress.life,
        seconds=round(now - lane.observed.started_at, 3) if lane.observed.started_at is not None else 0.0,
        cost_us=cost_of(sums).cpu_us,
    )
