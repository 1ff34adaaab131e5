"""Walks of the control loop: a sample until Pinot returns its row, and a breach until a lane moves.

Spark and Pinot are replaced. Spark calls one Python function for each batch of samples (`SampleReader`), and
evaluates all other steps in Java; the walk calls the function and skips the steps in Java. Pinot is a fake
that returns the row. The breach is judged by the monitor of an instance, which reads the metrics topic of a
fake broker. The stores and admin clients of the service, and the worker processes, are fakes.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from functools import cache
from typing import Any, Final, cast

import fastavro
import pandas as pd

from api.resources.lanes import LanesNow
from api.resources.movement import FleetMovements
from assigner.planner import LoadPlanner
from mirror.adapters.kafka import topic_client
from mirror.adapters.settings import KafkaCluster
from mirror.adapters.system_clock import SystemClock
from mirror.coordination.stores.measured_load import InstanceMeasurements, MeasuredLoads
from mirror.model.datastreams.lanes import QuotaHold, QuotaOwner
from mirror.model.identifiers import InstanceName
from mirror.model.latency import LATENCY_BUCKETS, latency_bucket
from mirror.model.metrics import MirrorMetric
from mirror.model.rows import avro_schema, row_of
from mirror.model.topics import TopicPartition, TopicSelection
from monitor.adapters.control_service import ControlService, Instances
from monitor.adapters.leases import HeldLease
from monitor.adapters.topic_measurements import TopicMeasurements
from monitor.cycle import MonitorCycle
from monitor.incidents import IncidentPolicy
from monitor.ports import Measurements
from pinot.client import PinotClient
from pinot.partitions.load_queries import partition_rates
from pinot.time_range import TimeRange
from pmp.job.reader import SampleReader
from pmp.samples.sample import Sample, encode
from tests.builders import SOURCE
from tests.fakes.broker.cluster import FakeCluster, running
from tests.fakes.pinot_wire import answering, columns_of
from tests.fakes.site import Site
from tests.tracing import Tracer, Visit

_SCHEMA: Final = fastavro.parse_schema(avro_schema(MirrorMetric))
_METRICS_TOPIC: Final = "mirrorMetrics"
_LATE_MS: Final = 60_000
_RATE: Final = 80.0
"""Bytes per second of a partition; a task can carry 100."""
_ITERATIONS: Final = 12
_TIMER: Final = "BrokerWatch._sweep"


@cache
def walk_of_sample() -> tuple[Visit, ...]:
    """Return everything that a sample of Cruise Control enters until its row is queried, in order."""
    now_ms = SystemClock().now_ms()
    reader = SampleReader(TopicSelection("t"), 60_000, 86_400_000)
    value = encode(Sample("t", 0, 1, now_ms - 1_000, _RATE, 1_000.0))
    records = pd.DataFrame(
        {
            "value": [value],
            "execution": [False],
            "origin_partition": [0],
            "origin_offset": [0],
            "origin_bytes": [len(value)],
        }
    )

    def response(sql: str) -> bytes:
        if columns_of(sql) == 2:
            return _pinot_response(["t", 0])
        return _pinot_response(
            ["t", 0, 1, 1, now_ms, now_ms, now_ms, 1, _RATE, _RATE, 1, 1, 0, 0, 0, 0, 1_000]
        )

    tracer = Tracer()
    with tracer.installed(), answering(response) as settings:

        def read_and_query() -> None:
            (rows,) = reader((0,), [records], cast(Any, _NewState()))
            assert len(rows) == 1
            (rates,) = partition_rates(PinotClient(settings), "east", TimeRange.up_to(now_ms, 60_000))
            assert rates.inflow == _RATE

        return tuple(tracer.entered_by(read_and_query, by_tests=True))


class _NewState:
    """State of a bucket in Spark's state store, empty at first."""

    exists = False

    def update(self, value: tuple[bytes]) -> None:
        """Store the memory of the bucket."""


def _pinot_response(*rows: Sequence[Any]) -> bytes:
    columns = [f"c{number}" for number in range(len(rows[0]))]
    types = ["STRING" if isinstance(value, str) else "DOUBLE" for value in rows[0]]
    table = {"dataSchema": {"columnNames": columns, "columnDataTypes": types}, "rows": rows}
    servers = {"numServersQueried": 1, "numServersResponded": 1}
    return json.dumps({"resultTable": table, "exceptions": [], **servers}).encode()


@cache
def walk_of_breach() -> tuple[Visit, ...]:
    """Return everything that late records enter until a rebalance has moved a lane, in order."""
    tracer, quiet = Tracer(), set[Visit]()
    topic_client._shared_loop.cache_clear()  # its thread can be traced only from its start
    with tracer.installed(), running(FakeCluster("metrics", 1)) as metrics:
        with metrics.lock:
            metrics.create_topic(_METRICS_TOPIC, 1)
        service = _Service()
        cluster = KafkaCluster(bootstrap_servers=metrics.address)
        with closing(TopicMeasurements(cluster, _METRICS_TOPIC, service.site.clock)) as measurements:
            service.watch(measurements)
            for _ in range(_ITERATIONS):
                quiet.update(tracer.entered_by(service.run_once, by_tests=True))
            while not any(one.function == _TIMER for one in quiet):  # it runs in the client's thread
                quiet.update(tracer.entered_by(service.run_once, by_tests=True))
            service.overload()

            def breach() -> None:
                for _ in range(_ITERATIONS):
                    _write_late_row(metrics, service.site.clock.now_ms())
                    service.run_once()
                    if len(service.tasks()) > 1:
                        return
                raise AssertionError("no lane has moved")

            found = tracer.entered_by(breach, by_tests=True)
    return tuple(one for one in found if one not in quiet)


class _Service:
    """One instance; one task copies both partitions of a datastream, until they exceed its capacity."""

    def __init__(self) -> None:
        self.site = site = Site(planner=LoadPlanner())
        self._publish_loads(_RATE / 8)
        site.create(objective={"milliseconds": 500})
        assert len(self.tasks()) == 1

    def watch(self, measurements: Measurements) -> None:
        """Run a monitor of the instance with these measurements from now on."""
        services = self.site.services
        service = ControlService(
            services.control,
            services.problems.all,
            services.previews.preview,
            HeldLease(services.acting, services.control, services.status.name),
            Instances(FleetMovements(services), LanesNow(services).of),
            services.incidents,
        )
        self._cycle = MonitorCycle(service, measurements, IncidentPolicy(), self.site.clock, 60.0)

    def tasks(self) -> set[str]:
        """Return the tasks of the lanes that run."""
        return {lane.spec.task for lane in self.site.follower.workers.lanes.values()}

    def overload(self) -> None:
        """Let both partitions carry more than before, so that their lanes reach the quota of the task."""
        self._publish_loads(_RATE)
        states = self.site.follower.workers._states
        for key, state in states.items():
            states[key] = replace(state, slowed="the task's quota", hold=QuotaHold(QuotaOwner.TASK, 0.5))

    def _publish_loads(self, rate: float) -> None:
        rates = {TopicPartition("t", number): (rate, 1.0) for number in range(2)}
        measured = InstanceMeasurements({SOURCE: rates})
        clock = self.site.clock
        MeasuredLoads(self.site.session).publish(InstanceName("other"), measured, clock.now_ms())

    def run_once(self) -> None:
        """Run the service and then its monitor once."""
        self.site.tick()
        self._cycle.held_by()
        self._cycle.evaluate()


def _write_late_row(metrics: FakeCluster, now_ms: int) -> None:
    """Write a measurement of ten records that were late."""
    latencies = [0] * LATENCY_BUCKETS
    latencies[latency_bucket(_LATE_MS)] = 10
    row = MirrorMetric(
        now_ms - 1_000,
        1_000,
        "one",
        "orders-0",
        "orders",
        SOURCE,
        "t",
        0,
        10,
        1,
        2,
        2,
        0,
        _LATE_MS,
        tuple(latencies),
    )
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, _SCHEMA, row_of(row))
    with metrics.lock:
        metrics.write(_METRICS_TOPIC, [(now_ms, b"key", buffer.getvalue(), [])], 0)
