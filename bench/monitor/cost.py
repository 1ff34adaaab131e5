"""CPU of the monitor: 1,000 datastreams, 10,000 topics, 200,000 partitions on 50 instances.

It has two sides. First, the evaluations of the monitor, every 10 s: from the JSON responses of REST and
Pinot to verdicts, budgets, incidents and alerts. Second, the work of instances to track each partition.
Every 5 s and for each busy lane, the worker process decides whether to report its position (watched), which
is sent through a pipe (sent) to the lane state of the instance (reports); these two columns are what
positions add to a report. Every 10 s an instance publishes the partitions that are not OK, and every 15 s
it is scraped. One instance with 4,000 lanes is measured and counted fifty times. Also measured is reading
the metrics topic without Pinot: each row is decoded and summed, and each evaluation reads all sums.
Servers, clients and the network are not included. The clock is advanced manually.
"""

from __future__ import annotations

import gc
import io
import json
import subprocess
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, cast

import fastavro

from bench.monitor.rig.states import REPORT_SECONDS, Spent, seconds_of, states_of_fleet
from headrace.process.interpreter import collect_seldom
from headrace.process.machine_code import data_plane, worker_command
from mirror.loggers import set_threshold
from mirror.model.identifiers import DatastreamName
from mirror.model.latency import LATENCY_BUCKETS
from mirror.model.metrics import MirrorMetric
from mirror.model.rows import avro_schema, row_of
from monitor.adapters.pinot_measurements import PinotMeasurements
from monitor.adapters.rest_service import RestService
from monitor.alerts.alert import Style
from monitor.alerts.alert_metrics import AlertMetrics
from monitor.alerts.catalogue import AlertPatience
from monitor.alerts.conditions import Conditions
from monitor.alerts.dispatch import AlertDispatch
from monitor.alerts.stored_alerts import InheritedAlerts, matters_of
from monitor.burn.rates import Budget, read_rule
from monitor.cycle import MonitorCycle
from monitor.incidents import IncidentPolicy
from monitor.latency import ObjectiveSubject, Observations, Source
from monitor.objectives.alone import SourcesAlone
from monitor.objectives.budgets import ALL, Budgets
from monitor.recent_rows import RecentRows, columns_read
from monitor.records.keeper import IncidentKeeper
from monitor.records.record import IncidentRecord, StoredMonitorState
from monitor.settings import MonitorSettings
from pinot.client import PinotClient, QueryResult, Value
from tests.fakes.clock import ManualClock

DATASTREAMS, TOPICS_EACH, PARTITIONS_EACH = 1_000, 10, 20
_EVALUATIONS, _TOPIC_REPORTS = 12, 3
_SETTLING: Final = 30
"""Evaluations until no topic is queried separately any longer, by measurements and by budgets."""
_HISTOGRAM: Final = [0, 0, 10, 200, 3000, 800, 90, 4] + [0] * (LATENCY_BUCKETS - 8)
_WITHIN_MS: Final = 2_000


class _Servers:
    """Fake REST and Pinot servers. Their responses are prepared between the evaluations.

    `late`: number of datastreams with a record that waits too long. `lags`: response about partitions.
    """

    def __init__(self, clock: ManualClock, late: int) -> None:
        self._clock, self._late = clock, late
        self._names = [f"stream-{number:04}" for number in range(DATASTREAMS)]
        topics = [(name, "east", f"{name}.topic-{one}") for name in self._names for one in range(TOPICS_EACH)]
        self._topics = topics
        self._list = json.dumps([_datastream(name) for name in self._names])
        counts = [float(count) for count in _HISTOGRAM]
        parts = [sum(counts[:11]), counts[11], sum(counts[12:])]  # below, within, above _WITHIN_MS
        sources = [(name, "east") for name in self._names]
        self._latencies = {
            "topic": json.dumps([[*topic, 4104.0, *counts] for topic in topics]),
            "source": json.dumps(
                [[*source, 41040.0, *(10 * count for count in counts)] for source in sources]
            ),
        }
        self._parts = {
            "topic": json.dumps([[*topic, *parts] for topic in topics]),
            "source": json.dumps([[*source, *(10 * part for part in parts)] for source in sources]),
        }
        self._stale = json.dumps([[*topic, 5_000.0, 2, 1.0] for topic in topics[: late * TOPICS_EACH]])
        self.lags = ""

    def prepare(self) -> None:
        """Prepare the next response about partitions."""
        at = self._clock.now_ms() - 2_000
        late = set(self._names[: self._late])
        self.lags = json.dumps(
            [
                [name, topic, number, f"{name}-0", 9, 30_000 if name in late else 400, at, east, 900, 5_000]
                for name, east, topic in self._topics
                if name in late  # others are excluded by HAVING
                for number in range(PARTITIONS_EACH)
            ]
        )

    def get(self, path: str, **parameters: Any) -> Any:
        """Return the list of datastreams, the movement of partitions, or no lanes."""
        if path == "/v1/datastreams":
            return json.loads(self._list)
        return {"datastreams": [], "is_complete": True} if path == "/v1/movement" else {"lanes": []}

    def post(self, path: str, body: object) -> Any:
        """Return a rebalance that moves nothing."""
        return {"sentence": "nothing moves", "moves": [], "loads_known": True}

    def put(self, path: str, document: object, version: str) -> Any:
        """Do nothing: the lease is not used."""

    def delete(self, path: str, version: str = "*", **parameters: Any) -> Any:
        """Do nothing: the lease is not used."""

    def ask(self, sql: str, _parameters: Mapping[str, Value] | None = None) -> QueryResult:
        """Return lags by partition, stale counts, or the latency histogram by topic or by source."""
        if "lastwithtime" in sql or "distinctcount" in sql:
            text = self.lags if "lastwithtime" in sql else self._stale
        else:
            depth = "topic" if "source_cluster, topic" in sql else "source"
            text = (self._latencies if "sum(records_copied)" in sql else self._parts)[depth]
        return QueryResult((), json.loads(text), 0)


class _NoTopic:
    """Incident store without content."""

    def load(self) -> StoredMonitorState:
        """Return an empty store."""
        return StoredMonitorState()

    def write(self, records: Sequence[IncidentRecord], notes: Mapping[str, bytes | None]) -> None:
        """Drop the records."""

    def reclaim(self) -> None:
        """Do nothing: there is no other writer."""


def _datastream(name: str) -> Mapping[str, Any]:
    objective = {"milliseconds": _WITHIN_MS, "target_percent": 99.5, "percentile": 99.0}
    return {
        "name": name,
        "status": "READY",
        "source": {"cluster": "east", "topics": rf"{name}\..*", "exclude": "", "internal": False},
        "destination": {"cluster": "west"},
        "metadata": {"owner": "bench"},
        "objective": None,
        "objectives": [{**objective, "window_seconds": 60, "period_days": 30}],
        "pauses": {},
        "problem": None,
    }


class _Service(RestService):
    """REST service that times the list of datastreams."""

    def __init__(self, servers: _Servers, spent: Spent) -> None:
        super().__init__(servers)
        self._spent = spent

    def subjects(self) -> Mapping[DatastreamName, ObjectiveSubject]:
        with self._spent.on("datastreams read over REST"):
            return super().subjects()


class _Measurements(PinotMeasurements):
    """Pinot measurements that time the query of the last minute."""

    def __init__(self, servers: _Servers, clock: ManualClock, spent: Spent) -> None:
        super().__init__(cast(PinotClient, servers), clock)
        self._spent = spent

    def observe(
        self, window_seconds: float, least_ms: int = 0, together: Collection[Source] = ()
    ) -> Observations:
        with self._spent.on("measurements read"):
            return super().observe(window_seconds, least_ms, together)


class _Budgets(Budgets):
    """Budgets that time the complete judgement."""

    spent = Spent()

    def judge(
        self,
        subjects: Mapping[DatastreamName, ObjectiveSubject],
        most_questions: int = ALL,
        alone: SourcesAlone | None = None,
    ) -> Mapping[DatastreamName, tuple[Budget, ...]]:
        with self.spent.on("budgets"):
            return super().judge(subjects, most_questions, alone)


def _evaluations(late: int, *, are_new: bool = False) -> float:
    """Return the CPU time of evaluations in percent of a core. `are_new`: the monitor has just started, and
    queries topics separately."""
    clock, settings, spent = ManualClock(), MonitorSettings(), Spent()
    servers = _Servers(clock, late)
    service, stored = _Service(servers, spent), _Measurements(servers, clock, spent)
    rules = [read_rule(text) for text in settings.burn_rates]
    budgets = _Budgets(stored, clock, rules, settings.minimum_records, 14)
    budgets.spent = spent
    policy = IncidentPolicy(settings.open_after, settings.close_after, settings.cooldown_seconds)
    cycle = MonitorCycle(service, stored, policy, clock, settings.window_seconds, budgets)
    alerts = AlertDispatch(
        Conditions(AlertPatience()), Style({}, "", ""), lambda: (), (), clock, AlertMetrics()
    )
    inherited = InheritedAlerts()
    keeper = IncidentKeeper(
        _NoTopic(),
        clock,
        lambda _: None,
        lambda: inherited.records(alerts.firing),
        lambda: matters_of(alerts.firing),
    )

    def evaluate() -> None:
        clock.advance(settings.interval_seconds)
        servers.prepare()
        with spent.on("all"):
            movements, findings = cycle.movements(), cycle.evaluate()
            with spent.on("alerts and incidents"):
                alerts.judged(findings, movements)
                keeper.judged(findings, movements)

    budgets.judge(service.subjects())  # the complete history
    for _ in range(1 if are_new else _SETTLING):
        evaluate()
    spent.clear()
    for _ in range(_EVALUATIONS):
        evaluate()
    each = {label: seconds / _EVALUATIONS for label, seconds in spent.items()}
    share = each.pop("all") / settings.interval_seconds * 100
    label = "first evaluation of a monitor" if are_new else f"an evaluation, {late} datastreams late"
    print(f"  {label:44}{spent['all'] / _EVALUATIONS * 1000:10.0f} ms {share:7.2f} %")
    for part, seconds in each.items():
        print(f"    {part:42}{seconds * 1000:10.0f} ms", flush=True)
    return share


def _rows_of_topic() -> None:
    """Decode and sum the reports of every partition, as read from the metrics topic."""
    schema = fastavro.parse_schema(avro_schema(MirrorMetric))
    read = fastavro.parse_schema(columns_read())
    kept, now_ms, taken, rows = RecentRows(), ManualClock().now_ms(), 0.0, 0
    for report in range(_TOPIC_REPORTS):
        now_ms += int(REPORT_SECONDS * 1000)
        for number in range(DATASTREAMS):
            encoded = [_encoded(schema, number, at, now_ms) for at in range(TOPICS_EACH * PARTITIONS_EACH)]
            began = time.process_time()
            for one in encoded:
                kept.add(cast(Mapping[str, Any], fastavro.schemaless_reader(io.BytesIO(one), read, None)))
            if report:  # the first report creates the sums that later ones add to
                taken += time.process_time() - began
                rows += len(encoded)
    look = seconds_of(lambda: kept.observe(now_ms, int(MonitorSettings().window_seconds * 1000)))
    forgotten = seconds_of(lambda: kept.forget(now_ms, 60_000))
    each, interval = taken / rows, MonitorSettings().interval_seconds
    each_evaluation = each * DATASTREAMS * TOPICS_EACH * PARTITIONS_EACH * interval / REPORT_SECONDS
    looks = look + forgotten
    print(f"  {'a row of the metrics topic':44}{each * 1e6:10.1f} us")
    for label, took in (
        ("  rows of an evaluation, all partitions busy", each_evaluation),
        ("  rows of an evaluation, a tenth busy", each_evaluation / 10),
        ("  evaluation of all rows", looks),
    ):
        print(f"  {label:44}{took * 1000:10.0f} ms {took / interval * 100:7.2f} %", flush=True)


def _encoded(schema: Any, datastream: int, at: int, now_ms: int) -> bytes:
    name = f"stream-{datastream:04}"
    metric = MirrorMetric(
        now_ms,
        int(REPORT_SECONDS * 1000),
        "instance-1",
        f"{name}-0",
        name,
        "east",
        f"{name}.topic-{at // PARTITIONS_EACH}",
        at % PARTITIONS_EACH,
        sum(_HISTOGRAM),
        410_400,
        40,
        40,
        9,
        400,
        tuple(_HISTOGRAM),
    )
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, schema, row_of(metric))
    return buffer.getvalue()


def main() -> None:
    """Print the CPU of monitor and workers in percent of a core, from a process with the workers' data
    plane."""
    subprocess.run(worker_command("bench.monitor.cost"), check=True)


def _measure() -> None:
    collect_seldom()
    set_threshold("off")
    gc.collect()
    partitions = DATASTREAMS * TOPICS_EACH * PARTITIONS_EACH
    print(f"{DATASTREAMS:,} datastreams, {partitions:,} partitions; percent of one core, all together")
    print(f"  data plane: {data_plane()}")
    heading = ("watched", "sent", "reports", "late", "scrapes", "together")
    print(f"  {'states of partitions':32}" + "".join(f"{one:>10}" for one in heading))
    busy = states_of_fleet("all lanes busy, none late", 1.0, 0.0, segments=False)
    tenth = states_of_fleet("a tenth of lanes busy, none late", 0.1, 0.0, segments=False)
    states_of_fleet("all lanes busy, sources delete", 1.0, 0.0, segments=True)
    states_of_fleet("all lanes busy, 1 % late", 1.0, 0.01, segments=False)
    print(f"  {'the monitor':44}{'an evaluation':>13}{'of a core':>10}")
    evaluations = _evaluations(0)
    _evaluations(10)
    _evaluations(0, are_new=True)
    print("  evaluations and states together, no late records")
    print(f"    {'a tenth of lanes busy':55}{evaluations + tenth:7.2f} %")
    print(f"    {'all lanes busy':55}{evaluations + busy:7.2f} %", flush=True)
    _rows_of_topic()


if __name__ == "__main__":
    _measure()
