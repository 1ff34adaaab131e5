"""An engine in a process of its own that copies one topic and prints what it has done, a line a second:

    python -m headrace.process.machine_code bench.placement.rig.counting_engine SOURCE TARGET TOPIC PARTITIONS

Each line is a JSON object: `seconds` and `cpu_us` since the line before, and the counters of all lanes. It
ends when its standard input does.
"""

from __future__ import annotations

import gc
import json
import select
import sys
import time
from typing import Final

from headrace.process.machine_code import data_plane
from mirror.adapters.system_clock import SystemClock
from mirror.client.access import ClusterAccess, endpoints
from mirror.lane.counters import LaneCounters
from mirror.model.datastreams.lanes import LaneKey, LaneSpec
from mirror.model.identifiers import ClusterRef, GroupName, TaskName
from mirror.model.topics import TopicPartition
from mirror.replication.context import EngineContext, EngineIdentity
from mirror.replication.engine import BatchEngine
from mirror.replication.options import CopyingOptions

_STEP_SECONDS: Final = 0.05
_GROUP: Final = GroupName("costs")
COUNTED: Final = (
    "fetched_parts",
    "bytes_copied",
    "batches",
    "source_batches",
    "small_batches",
    "small_bytes",
    "merged_bytes",
)
"""Counters in a line."""


def main(source: str, target: str, topic: str, partitions: int) -> None:
    """Copy until the input ends."""
    access = {"source": ClusterAccess(endpoints(source)), "target": ClusterAccess(endpoints(target))}
    context = EngineContext(
        lambda reference: access[reference], CopyingOptions(), EngineIdentity("costs"), SystemClock()
    )
    engine = BatchEngine(context)
    print(data_plane(), flush=True)
    engine.start_lanes([_lane(topic, number) for number in range(partitions)])
    gc.freeze()
    at, cpu = time.monotonic(), time.process_time()
    while not select.select([sys.stdin], [], [], 0)[0]:
        engine.step(_STEP_SECONDS)
        now, spent = time.monotonic(), time.process_time()
        if now - at >= 1.0:
            line = {"seconds": now - at, "cpu_us": (spent - cpu) * 1e6, **_taken(engine)}
            print(json.dumps(line), flush=True)
            at, cpu = now, time.process_time()
    engine.close(10.0)


def _lane(topic: str, number: int) -> LaneSpec:
    key = LaneKey(_GROUP, TopicPartition(topic, number))
    return LaneSpec(key, TaskName("costs-0"), ClusterRef("source"), ClusterRef("target"), topic)


def _taken(engine: BatchEngine) -> dict[str, int]:
    sums = LaneCounters()
    for lane in engine.runner.lanes.values():
        sums.add(lane.take_counters())
    return {name: getattr(sums, name) for name in COUNTED}


if __name__ == "__main__":
    _source, _target, _topic, _partitions = sys.argv[1:]
    main(_source, _target, _topic, int(_partitions))
