"""Failovers of consumer groups at random times under load: Headrace compared with MirrorMaker 2.

Both mirrors copy one topic between the same clusters of Kafka 4.4, each into a separate topic, and each keeps
the positions of separate groups. A group reads at the source, 1, 1,000 or 1,000,000 records behind the end:
classic groups and those of KIP-848 with both mirrors, streams groups and share groups with Headrace. Its
consumer stops at a random time, and the failover uses the positions that the destination has at that time, as
if the source were lost. Each group is one failover at a separate time, while the mirrors and other groups
continue. Then the group continues at the destination and commits: its position there must stay, with a member
and after this member has left.

A share group releases each fiftieth record once, so it acknowledges later records first. Records that it has
acknowledged count as read again if they are delivered again at the destination. A position is set forward if
the mirror learns after the failover that the group has read further at the source, which still runs.

In the environment:

    BENCH_FAILOVERS=108          for each mirror
    BENCH_AT_ONCE=20             groups that read at the same time
    BENCH_RATE=200               records/s
    BENCH_INTERVAL=0.1           seconds between rounds of Headrace; MirrorMaker 2 takes whole seconds
    BENCH_CHECKPOINT=2           seconds between checkpoints of Headrace
    BENCH_BACKLOG=1200000        records before the first failover
"""

from __future__ import annotations

import math
import os
import statistics
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import product
from random import Random
from typing import Final

from confluent_kafka import KafkaException

from bench.group.rig.failover import Case, Failover, Outcome
from bench.group.rig.readers import KINDS, set_positions
from bench.group.rig.traffic import PARTITIONS, Traffic
from bench.mirror.rig.clusters import Pair, Topics, clusters
from bench.mirror.rig.engines import Work, mirror_maker
from mirror.protocol.batches.compression import Codec
from mirror.protocol.control.groups import CLASSIC, CONSUMER
from stack.jars.coordinates import KAFKA_RELEASES, NEWER_KAFKA
from stack.process.wait import wait_until
from tests.running import RunningInstance

_FAILOVERS: Final = int(os.environ.get("BENCH_FAILOVERS", "108"))
_AT_ONCE: Final = int(os.environ.get("BENCH_AT_ONCE", "20"))
_RATE: Final = float(os.environ.get("BENCH_RATE", "200"))
_INTERVAL: Final = float(os.environ.get("BENCH_INTERVAL", "0.1"))
_WHOLE_INTERVAL: Final = math.ceil(_INTERVAL)
_CHECKPOINT: Final = float(os.environ.get("BENCH_CHECKPOINT", "2"))
_BACKLOG: Final = int(os.environ.get("BENCH_BACKLOG", "1200000"))
_PATIENCE_SECONDS: Final = 180.0
_TOPIC: Final = "bench-groups"
_HEADRACE: Final = "Headrace"
_MIRROR_MAKER: Final = "MirrorMaker 2"
_COPIES: Final = {_HEADRACE: f"copy.{_TOPIC}", _MIRROR_MAKER: _TOPIC}
_PREFIXES: Final = {_HEADRACE: "orders", _MIRROR_MAKER: "mm2"}
_KINDS: Final = {_HEADRACE: KINDS, _MIRROR_MAKER: (CLASSIC, CONSUMER)}
_BEHIND: Final = (1, 1_000, 1_000_000)
_SETTINGS: Final = {
    "source->target.groups": "mm2-.*",
    "source->target.sync.group.offsets.enabled": "true",
    "source->target.sync.group.offsets.interval.seconds": _WHOLE_INTERVAL,
    "source->target.emit.checkpoints.interval.seconds": _WHOLE_INTERVAL,
    "source->target.refresh.groups.interval.seconds": _WHOLE_INTERVAL,
    "source.consumer.isolation.level": "read_committed",
}


def main() -> None:
    """Print the table of all failovers."""
    chance = Random(1)
    cases = _cases()
    with clusters(jar_set=NEWER_KAFKA) as pair:
        Topics(pair.source).create(_TOPIC, PARTITIONS)
        traffic = Traffic(pair.source.address, _TOPIC)
        traffic.abort()
        traffic.write(_BACKLOG)
        for case in cases:  # the mirrors know the groups before the first failover
            set_positions(pair.source.address, case.group, case.kind, _TOPIC, [1] * PARTITIONS)
        with _mirrors(pair), traffic.running(_RATE):
            _wait_for_copies(pair, traffic)
            began = time.monotonic()
            failovers = [Failover(pair, _TOPIC, traffic, case, Random(chance.random())) for case in cases]
            outcomes: list[Outcome] = []
            with ThreadPoolExecutor(_AT_ONCE) as pool:
                for running in as_completed([pool.submit(failover.run) for failover in failovers]):
                    try:
                        outcomes.append(running.result())
                    except (TimeoutError, KafkaException) as error:
                        print(f"not measured: {error}")
            _print(outcomes, time.monotonic() - began)


def _cases() -> list[Case]:
    """Return the consumer groups of both mirrors in alternation."""
    kinds = {mirror: list(product(_KINDS[mirror], _BEHIND)) for mirror in _COPIES}
    return [
        Case(mirror, f"{_PREFIXES[mirror]}-{number}", copy, *kinds[mirror][number % len(kinds[mirror])])
        for number in range(_FAILOVERS)
        for mirror, copy in _COPIES.items()
    ]


@contextmanager
def _mirrors(pair: Pair) -> Iterator[None]:
    """Run Headrace and MirrorMaker 2."""
    environment = {
        "HEADRACE_CLUSTERS__SOURCE__BOOTSTRAP_SERVERS": pair.source.address,
        "HEADRACE_CLUSTERS__DESTINATION__BOOTSTRAP_SERVERS": pair.target.address,
        "HEADRACE_COORDINATION__CLUSTER": "destination",
        "HEADRACE_MIRROR__WORKER__PROCESSES": "1",
        "HEADRACE_MIRROR__WORKER__CHECKPOINT_INTERVAL_SECONDS": str(_CHECKPOINT),
    }
    instance = RunningInstance("one", pair.folder, environment)
    with ExitStack() as stack:
        stack.callback(instance.stop)
        instance.start()
        definition = {
            "name": "orders",
            "source": {"cluster": "source", "topics": _TOPIC},
            "destination": {"cluster": "destination", "name": "copy.*"},
            "groups": {"include": "orders-.*", "interval_seconds": _INTERVAL},
            "metadata": {"owner": "bench"},
        }
        instance.rest.post("/v1/datastreams", definition)
        stack.enter_context(mirror_maker(pair, Work(_TOPIC, Codec.NONE), _SETTINGS).process)
        yield


def _wait_for_copies(pair: Pair, traffic: Traffic) -> None:
    """Wait until both copies contain the backlog."""
    target = Topics(pair.target)
    for copy in _COPIES.values():
        wait_until(partial(_has_backlog, target, copy), _PATIENCE_SECONDS, f"the backlog in {copy}")
    print(
        f"brokers of Kafka {KAFKA_RELEASES[NEWER_KAFKA]}, {traffic.records:,} records, {_RATE:g} records/s,"
        f" {PARTITIONS} partitions, rounds every {_INTERVAL:g} s (MirrorMaker 2: {_WHOLE_INTERVAL} s)"
    )


def _has_backlog(target: Topics, copy: str) -> bool:
    return target.end(copy, PARTITIONS) >= _BACKLOG


def _print(outcomes: Sequence[Outcome], seconds: float) -> None:
    print(f"{len(outcomes)} failovers in {seconds:.0f} s, each at a random time; records of a group")
    print(
        f"  {'mirror':15}{'type':10}{'behind':>10}{'failovers':>11}{'skipped':>9}{'read again: p50':>17}"
        f"{'max':>11}{'max s':>9}{'no position':>13}{'overruled':>11}{'set back':>10}{'set forward':>13}"
    )
    for mirror, kinds in _KINDS.items():
        for kind, behind in product(kinds, _BEHIND):
            wanted = (mirror, kind, behind)
            found = [one for one in outcomes if (one.case.mirror, one.case.kind, one.case.behind) == wanted]
            if found:
                print(f"  {mirror:15}{kind:10}{behind:>10,}{_row(found)}")


def _row(found: Sequence[Outcome]) -> str:
    again = [outcome.read_again for outcome in found]
    return (
        f"{len(found):>11}{sum(outcome.skipped for outcome in found):>9,}"
        f"{statistics.median(again):>17,.0f}{max(again):>11,}{max(again) / _RATE:>9.1f}"
        f"{sum(outcome.missing > 0 for outcome in found):>13}"
        f"{sum(outcome.overruled > 0 for outcome in found):>11}"
        f"{sum(outcome.moved_back > 0 for outcome in found):>10}"
        f"{sum(outcome.moved_forward > 0 for outcome in found):>13}"
    )
