"""Merges small batches before they are sent to a distant destination."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from mirror.errors import CorruptData
from mirror.lane.byte_budget import ByteBudget
from mirror.lane.lane import Lane
from mirror.lane.ledger import SkippedOffsets
from mirror.lane.out_batch import BatchOrigin, OutBatch, Path
from mirror.model.movement.append_times import AppendSpan
from mirror.protocol.batches.batch import HEADER_SIZE, TRANSACTIONAL, scan
from mirror.protocol.batches.reframe import Reframer, Run, extend, note_time

_PLAIN: Final = TRANSACTIONAL
"""Batch attributes that a batch may have to be merged.

Compressed batches are excluded, because merging would decompress and compress them again.
"""


@dataclass(frozen=True, slots=True)
class BatchMerger:
    """Merges the waiting batches of a lane, within size limits and a memory budget."""

    most_bytes: int
    most_in_flight: int
    budget: ByteBudget

    def charge_next(self, lane: Lane) -> None:
        """Charge the memory of the lane's next batch to `budget`."""
        following = next((item for item in lane.queue.unsent if isinstance(item, OutBatch)), None)
        if following is not None:
            move(following, self.budget)


def move(batch: OutBatch, budget: ByteBudget) -> None:
    """Charge the memory of a batch to `budget` instead of its receive buffer or its former budget."""
    if batch.slab is not None:
        batch.detach(budget)
    elif batch.budget is not None and batch.budget is not budget:
        batch.budget.give(len(batch.batch))
        batch.charge(budget)


def bytes_sent_from(budget: ByteBudget, lane: Lane) -> int:
    """Return the total size of the lane's batches in flight whose memory is charged to `budget`."""
    sent = [item for item in lane.queue.sent if isinstance(item, OutBatch) and item.outstanding]
    return sum([len(item.batch) for item in sent if item.budget is budget])


def next_size(lane: Lane, most_bytes: int) -> int:
    """Return the approximate size in bytes of the next batch to send, after merging; 0 if no batch waits."""
    unsent, rules = lane.queue.unsent, lane.read.rules
    start = next((place for place, item in enumerate(unsent) if isinstance(item, OutBatch)), len(unsent))
    run = _run(unsent[start:], min(most_bytes, rules.batch_limit)) if rules.merge is not None else []
    if run:
        return sum(len(batch.batch) for batch in run)
    return sum(len(item.batch) for item in unsent[start : start + 1] if isinstance(item, OutBatch))


def merged_run(lane: Lane, most_bytes: int) -> tuple[int, list[OutBatch], OutBatch] | None:
    """Merge the first waiting batches into one batch of at most `most_bytes` and the destination's limit.
    Returns (index in the queue, merged batches, resulting batch), or None if the batches cannot be merged."""
    rules, queue = lane.read.rules, lane.queue
    if rules.merge is None or lane.ownership.is_held:
        return None
    start = next((place for place, item in enumerate(queue.unsent) if isinstance(item, OutBatch)), 0)
    run = _run(queue.unsent[start:], min(most_bytes, rules.batch_limit))
    if len(run) < 2 or run[0].first_offset < rules.opened_below:
        return None
    try:
        merged = merge(run)
    except CorruptData:
        return None  # the destination accepts or rejects each batch
    return None if len(merged.batch) > rules.batch_limit else (start, run, merged)


def _run(items: Sequence[OutBatch | SkippedOffsets], most_bytes: int) -> list[OutBatch]:
    """Return the longest prefix of `items` that can be merged into one batch of at most `most_bytes`."""
    run: list[OutBatch] = []
    size = 0
    for item in items:
        if not isinstance(item, OutBatch) or item.is_stamped or item.attributes & ~_PLAIN:
            break
        size += len(item.batch)
        if size > most_bytes:
            break
        run.append(item)
    return run


def merge(batches: Sequence[OutBatch]) -> OutBatch:
    """Merge uncompressed record batches into one batch. Raises CorruptData."""
    reframer = Reframer(0)
    runs: list[Run] = []
    passed: list[SkippedOffsets] = []
    by_source: list[tuple[int, int]] = []
    for batch in batches:
        header = next(scan(batch.batch))[2]
        assert header is not None, "batches to send have format 2"
        reframer.add(bytes(batch.batch[HEADER_SIZE:]), header, header.base_offset, 2**62)
        for offset, count in batch.runs:
            extend(runs, offset, count)
    origins = [batch.origin for batch in batches]
    for origin in origins:
        passed += origin.passed
        for newest, count in origin.by_source:
            note_time(by_source, newest, count)
    made = reframer.finish()
    first, last = batches[0], batches[-1]
    merged = OutBatch(
        memoryview(made.batch), tuple(runs), made.record_count, first.first_offset, last.next_offset
    )
    merged.made_from = BatchOrigin(
        max(Path.REFRAMED, *(origin.path for origin in origins)),
        passed,
        tuple(by_source),
        sum(origin.source_batches for origin in origins),
        sum(origin.source_bytes for origin in origins),
        made.payload_bytes,
    )
    merged.first_timestamp = first.first_timestamp
    merged.max_timestamp = max(batch.max_timestamp for batch in batches)
    merged.appended = AppendSpan(
        min(batch.appended.since_ms for batch in batches), max(batch.appended.until_ms for batch in batches)
    )
    merged.received = first.received
    return merged
