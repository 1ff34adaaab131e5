"""The reference of every metric, generated from what is exported."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric

from api.metrics.advice import AdviceCollector
from api.metrics.collector import InstanceCollector
from api.services import ProcessUsage
from headrace.reference.other_mirrors import BROOKLIN, MIRROR_MAKER, Renamed
from mirror.adapters.system_clock import SystemClock
from mirror.coordination.stores.problems import Problem
from mirror.instance.health import Condition
from mirror.instance.loads.assessments import Assessment
from mirror.instance.loads.newest import ClusterLoads
from mirror.instance.loads.watch import LoadStanding
from mirror.instance.uncopied.watch import UncopiedLane
from mirror.instance.workers.lane_table import NONE_IN_TIME, LanesInTime, LaneStatus
from mirror.instance.workers.supervisor import WorkerCount
from mirror.model.datastreams.datastream import Datastream
from mirror.model.datastreams.lanes import LaneKey
from mirror.model.identifiers import ClusterRef, DatastreamName, Epoch, GroupName, InstanceName, TaskName
from mirror.model.load import LoadSource
from mirror.model.metrics import Drops
from mirror.model.movement.clock_skew import ClockSkew
from mirror.worker.protocol import TaskSums
from monitor.alerts.metrics import AlertMetrics
from pmp.job.metrics import JobMetrics

_INTRODUCTION: Final = """\
# Metrics

Every metric of Headrace, as Prometheus scrapes it: `/metrics` of an instance, and the pages of
`monitor.metrics_port` and `pmp.job.metrics_port`. It is generated: `headrace config reference --metrics`.
Names and units follow Prometheus' conventions: base units, the unit at the end, `_total` for what only rises.
What is not known has no series; a series that is missing is no 0. What is "told by the leader" is on one
instance at a time: take `max` or `sum` over instances, never an average. Gauges by datastream are of the
partitions of that instance. A datastream that shares its tasks with others (`system.taskPrefix`) is counted
under that prefix. Beside these an instance has `process_start_time_seconds`, `process_resident_memory_bytes`
and the other `process_…` metrics of Prometheus' client, of its control process.

Series grow with datastreams, tasks and clusters, and not with partitions: of these
`api.metrics.top_partitions` have series of their own (20 that wait longest and 20 that carry most, on each
instance), and all with `api.metrics.every_partition`.
"""

_OTHERS: Final = """\
## Names in other mirrors

For boards and alerts that are taken over. Theirs are the attributes in JMX; exporters change them a little.
"""

_UNITS: Final = (
    ("_timestamp_seconds", "s since 1970"),
    ("_bytes_per_second", "bytes/s"),
    ("_records_per_second", "records/s"),
    ("_seconds", "s"),
    ("_bytes", "bytes"),
    ("_records", "records"),
    ("_partitions", "partitions"),
    ("_ratio", "share"),
)


_NOBODY: Final = InstanceName("")
_NO_EPOCH: Final = Epoch(0)
_NO_USAGE: Final = ProcessUsage()
_NO_WORKERS: Final = WorkerCount(0, 0, 0)


@dataclass(frozen=True)
class Described:
    """One metric: `name` as Prometheus has it, `kind` its type, `labels` those of every series."""

    name: str
    kind: str
    text: str
    labels: tuple[str, ...]

    @property
    def unit(self) -> str:
        """What its name says; empty for plain numbers."""
        stem = self.name.removesuffix("_total")
        return next((unit for ending, unit in _UNITS if stem.endswith(ending)), "")


@dataclass(frozen=True)
class _Nothing:
    """An instance that has just started. Satisfies `api.services.InstanceStatus`."""

    name: InstanceName = _NOBODY
    usage: ProcessUsage = _NO_USAGE
    is_leading: bool = False
    epoch: Epoch = _NO_EPOCH
    lanes: Mapping[LaneKey, LaneStatus] = field(default_factory=dict)
    in_time: LanesInTime = NONE_IN_TIME
    task_sums: Mapping[TaskName, TaskSums] = field(default_factory=dict)
    throttled_seconds: Mapping[ClusterRef, float] = field(default_factory=dict)
    clock_skews: Mapping[ClusterRef, ClockSkew] = field(default_factory=dict)
    illegal_topics: Mapping[ClusterRef, int] = field(default_factory=dict)
    strategies: tuple[str, ...] = ()
    load_providers: tuple[str, ...] = ()
    drops: Mapping[str, Drops] = field(default_factory=dict)
    data_planes: frozenset[str] = frozenset()
    workers: WorkerCount = _NO_WORKERS
    conditions: Mapping[str, Condition] = field(default_factory=dict)
    readiness: Mapping[str, Condition] = field(default_factory=dict)
    problems: Mapping[DatastreamName, Problem] = field(default_factory=dict)
    loads: Mapping[LoadSource, LoadStanding] = field(default_factory=dict)
    load_sources: Mapping[GroupName, LoadSource] = field(default_factory=dict)
    uncopied: Sequence[UncopiedLane] = ()
    assessments: Mapping[GroupName, Assessment] = field(default_factory=dict)
    datastreams: tuple[Datastream, ...] = ()
    has_died: bool = False

    def known_loads(self, source: LoadSource) -> ClusterLoads | None:
        """Nothing is."""


def metrics_reference() -> str:
    """Markdown: a table for each page that Prometheus scrapes."""
    sections = [_INTRODUCTION]
    for title, metrics in described().items():
        rows = [_row(one) for one in sorted(metrics, key=lambda one: one.name)]
        head = "| metric | type | unit | labels | meaning |\n|---|---|---|---|---|"
        sections.append(f"## {title}\n\n{head}\n" + "\n".join(rows) + "\n")
    sections.append(_OTHERS)
    for title, rows_of_others in (("MirrorMaker 2", MIRROR_MAKER), ("Brooklin", BROOKLIN)):
        others = "\n".join(f"| {_theirs(one)} | {_code(one.ours)} | {one.note} |" for one in rows_of_others)
        sections.append(f"### {title}\n\n| {title} | here | |\n|---|---|---|\n{others}\n")
    return "\n".join(sections)


def described() -> Mapping[str, Sequence[Described]]:
    """Every metric, by where it is found."""
    collectors = (InstanceCollector(_Nothing(), SystemClock()), AdviceCollector(lambda: None))
    instance = [family for one in collectors for family in one.collect()]
    job = JobMetrics()
    job.watch_rollup(lambda: True, lambda: 0)
    return {
        "Of an instance": [_of(one, getattr(one, "_labelnames", ())) for one in instance],
        "Of the monitor": list(_registered(AlertMetrics().registry)),
        "Of the metrics job": list(_registered(job.registry)),
    }


def _registered(registry: CollectorRegistry) -> Iterator[Described]:
    """Of each collector its families. Those of the client's own kinds have their labels in the collector."""
    collectors: Iterable[Any] = getattr(registry, "_collector_to_names", ())
    for collector in collectors:
        kept = getattr(collector, "_labelnames", ())
        for family in collector.collect():
            yield _of(family, getattr(family, "_labelnames", kept))


def _of(family: Metric, labels: Sequence[str]) -> Described:
    name = f"{family.name}_total" if family.type == "counter" else family.name
    return Described(name, family.type, family.documentation, tuple(labels))


def _row(one: Described) -> str:
    labels = ", ".join(f"`{label}`" for label in one.labels)
    return f"| `{one.name}` | {one.kind} | {one.unit} | {labels} | {one.text} |"


def _theirs(one: Renamed) -> str:
    """Names as code, remarks in brackets as they are."""
    return one.theirs if one.theirs.startswith("(") else ", ".join(map(_code, one.theirs.split(", ")))


def _code(text: str) -> str:
    return f"`{text}`" if text else ""
