"""Visible results of the worked examples of CONTRIBUTING.md.

    python -m tests.worked_examples

copies records with an engine between fake clusters, runs the contract tests on the connector, and prints the
results of each example as JSON.
"""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Coroutine, Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from headrace.console.datastreams.fields import document_of
from mirror.adapters.system_clock import SystemClock
from mirror.client.event_loop import Loop
from mirror.model.datastreams.policy import CopyPolicy
from mirror.model.metrics import Drops, MirrorMetric
from mirror.model.topics import TopicPartition
from mirror.protocol.batches.records import Record
from mirror.replication.connector import RecordSink, open_sink
from mirror.worker.protocol import LaneRates, MessageReader, encode_message
from mirror.worker.reports import MetricReports
from pinot.tables import MIRROR_METRICS
from tests.contract.connectors import RecordSinkContract
from tests.fakes.broker.mirrored import MirroredFakes
from tests.fakes.site import Site

T = TypeVar("T")


class _Published:
    def __init__(self) -> None:
        self.metrics: list[MirrorMetric] = []

    def publish(self, metrics: Sequence[MirrorMetric]) -> None:
        self.metrics += metrics

    def drops(self) -> Drops:
        return Drops()


def _copied(records: int, **fields: Any) -> MirroredFakes:
    """Copy single records of partition 0 of topic `t` in a lane of the datastream `orders`."""
    fakes = MirroredFakes()
    fakes.make_topic("t")
    for number in range(records):
        fakes.write("t", number, 1)
    fakes.start("t", group="orders", **fields)
    fakes.run_to("t", records)
    return fakes


def metric() -> dict[str, Any]:
    """Return the metric on /metrics and /v1/lanes after its way through the pipe, and Pinot's columns."""
    fakes, published = _copied(100), _Published()
    (message,) = MetricReports(fakes.engine, published, fakes.clock, 5.0).closing()
    fakes.close()
    (said,) = MessageReader().feed(encode_message(message))
    assert isinstance(said, LaneRates)
    site = Site()
    site.create("orders")
    workers = site.follower.workers
    for rate in said.rates:
        workers.report(rate)
    workers.measurements.add(said)
    site.follower.run_loop()
    return {
        "columns": [column.name for column in MIRROR_METRICS.columns],
        "version": MIRROR_METRICS.version,
        "prometheus": site.client.get("/metrics").text,
        "lane": site.client.get("/v1/lanes").json()["lanes"][0],
    }


def option() -> dict[str, Any]:
    """Return the option on /v1, as metadata of Brooklin, in the created topic, and for a command."""
    site = Site()
    site.create("orders", destination={"cluster": "destination", "compact": True})
    schemas = site.client.get("/v1/openapi.json").json()["components"]["schemas"]
    return {
        "answer": site.client.get("/v1/datastreams/orders").json()["destination"],
        "metadata": site.client.get("/datastream/orders").json()["metadata"],
        "created": dict(site.destination.topics["t"].settings),
        "command": document_of({"compact": True}, ()),
        "documented": schemas["DestinationBody"]["properties"],
    }


def transform() -> dict[str, Any]:
    """Return the headers of records at the destination."""
    fakes = _copied(3, policy=CopyPolicy(transforms=("stamp-header:site=east",)))
    seen = fakes.copied("t")
    fakes.close()
    return {"headers": [[[key, (value or b"").decode()] for key, value in one.headers] for one in seen]}


class _Database:
    """Sink of the example as loaded from an entry point, and its table as another program reads it."""

    def __init__(self, path: Path) -> None:
        self.place = TopicPartition("t", 0)
        self._path = path
        self._loop = Loop(SystemClock())

    def run(self, steps: Coroutine[Any, Any, T]) -> T:
        promise = self._loop.spawn(steps)
        while not promise.is_done:
            self._loop.run_once(1)
        return promise.result()

    def open(self) -> RecordSink:
        return open_sink(f"sqlite:{self._path}")

    def seen(self, place: TopicPartition) -> Sequence[Record]:
        with closing(sqlite3.connect(self._path)) as database:
            rows = database.execute(
                "SELECT offset, timestamp, key, value, headers FROM records WHERE topic = ? AND partition = ?"
                " ORDER BY rowid",
                place,
            ).fetchall()
        return [
            Record(offset, timestamp, key, value, _headers(json.loads(headers)))
            for offset, timestamp, key, value, headers in rows
        ]


def _headers(named: Sequence[tuple[str, str | None]]) -> tuple[tuple[bytes, bytes | None], ...]:
    return tuple((bytes.fromhex(name), None if text is None else bytes.fromhex(text)) for name, text in named)


def connector() -> dict[str, Any]:
    """Return the contract tests that the sink passes; a failing one raises."""
    names = [name for name in dir(RecordSinkContract) if name.startswith("test_")]
    with TemporaryDirectory() as folder:
        metadata = Path(folder, "example-1.dist-info")
        metadata.mkdir()
        (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: example\nVersion: 1\n")
        (metadata / "entry_points.txt").write_text(
            "[headrace.sinks]\nsqlite = mirror.replication.connectors.sqlite_table:open_sink\n"
        )
        sys.path.append(folder)
        for name in names:
            getattr(RecordSinkContract(), name)(_Database(Path(folder, f"{name}.db")))
    return {"kept": names}


if __name__ == "__main__":
    print(
        json.dumps(
            {"metric": metric(), "option": option(), "transform": transform(), "connector": connector()}
        )
    )
