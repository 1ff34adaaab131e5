"""Memory and time to load the progress topic in a worker, by the number of lanes it owns."""

from __future__ import annotations

import time
import tracemalloc

from mirror.lane.ledger import Ledger, OffsetClass
from mirror.lane.offset_map import OffsetMap
from mirror.lane.progress import LaneProgress, SourceIdentity, entries_of, main_key
from mirror.model.datastreams.lanes import LaneKey
from mirror.model.identifiers import GroupName
from mirror.model.topics import TopicPartition
from mirror.protocol.batches.batch import BatchHeader
from mirror.replication.progress_log import batches_of
from mirror.replication.stored_progress import ProgressPart

_LANES = 200_000
_OWN = (0, 1_000, 10_000, _LANES)


def main() -> None:
    """Print a line for each number of owned lanes."""
    keys = [
        LaneKey(
            GroupName(f"datastream-{number % 50}"),
            TopicPartition(f"events.topic-{number // 32}", number % 32),
        )
        for number in range(_LANES)
    ]
    batches = [
        memoryview(batch) for batch in batches_of([entry for key in keys for entry in _entries(key)], 0)
    ]
    print(f"{_LANES:,} partitions have progress: {sum(map(len, batches)) / 2**20:.0f} MiB in the topic")
    print(f"{'own lanes':>12}{'memory MiB':>12}{'seconds to read':>18}")
    for count in _OWN:
        wanted = {main_key(key) for key in keys[:: max(_LANES // count, 1)][:count]} if count else set()
        seconds = _read(wanted, batches)[0]
        tracemalloc.start()
        part = _read(wanted, batches)[1]
        kept = tracemalloc.get_traced_memory()[0] / 2**20
        tracemalloc.stop()
        assert len(part.values) == count
        print(f"{count:12,}{kept:12.1f}{seconds:18.2f}")


def _entries(key: LaneKey) -> list[tuple[bytes, bytes | None]]:
    ledger, offset_map = Ledger(0), OffsetMap()
    for run in range(3):
        offset_map.add(run * 1_000_000, run * 1_000_001, 1_000_000)
        ledger.enter(OffsetClass.MIRRORED, 1_000_000)
    progress = LaneProgress(ledger, offset_map, SourceIdentity(bytes(16), 3), bytes(16), 3_000_002)
    return entries_of(key, progress, 1_700_000_000_000, "0123456789ab")[0]


def _read(wanted: set[bytes], batches: list[memoryview]) -> tuple[float, ProgressPart]:
    began = time.perf_counter()
    part = ProgressPart(wanted, 0, (0, 1))
    for batch in batches:
        part.take(batch, BatchHeader(batch))
    return time.perf_counter() - began, part
