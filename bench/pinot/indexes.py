"""Effect of each index of `partitionMetrics`: the same rows in tables that differ by an index."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any, Final

from bench.pmp.rig.metrics_load import START_MS, Servers, servers, spark
from bench.pmp.rig.rows import ROUND_MS, wait_for_rows, write_samples
from pinot.client import PinotClient, QueryResult, Value
from pinot.deployment.controller import PinotController
from pinot.partitions.load_queries import freshness, partition_rates
from pinot.partitions.offending_partitions import offending_partitions
from pinot.schemas import Placement, pinot_schema, pinot_table
from pinot.settings import PinotSettings
from pinot.tables import PARTITION_METRICS
from pinot.time_range import TimeRange

CLUSTERS = ("one", "two", "three")
PARTITIONS = 20_000
ROUNDS = 20
RUNS = 9
_COMMITTED_ROWS = 200_000
"""Small enough to commit most segments: a consuming segment has only the inverted index."""
_ALL: Final = TimeRange(START_MS, START_MS + ROUNDS * ROUND_MS)
_SHORT: Final = TimeRange(_ALL.until_ms - 2 * ROUND_MS, _ALL.until_ms)
_INDEXES: Final[Mapping[str, dict[str, Any]]] = {
    "none": {"invertedIndexColumns": []},
    "inverted cluster": {"invertedIndexColumns": ["cluster"]},
    "inverted cluster, topic": {"invertedIndexColumns": ["cluster", "topic"]},
    "the same, range time_ms": {
        "invertedIndexColumns": ["cluster", "topic"],
        "rangeIndexColumns": ["time_ms"],
    },
    "inverted cluster, sorted topic": {"invertedIndexColumns": ["cluster"], "sortedColumn": ["topic"]},
}


def main() -> None:
    """Create the tables, write the rows once, and run the same queries on every table."""
    with servers(pinot_heap_mib=6000) as made:
        fill(made, PARTITIONS)
        measure(made)


def fill(made: Servers, partitions: int) -> None:
    """Create all tables on the same topic, and write the rows."""
    controller = PinotController(made.pinot_settings)
    for number, index in enumerate(_INDEXES.values()):
        table = replace(PARTITION_METRICS, name=f"variant{number}")
        placement = Placement(made.broker.address, table.topic, 3650, segment_rows=_COMMITTED_ROWS)
        document = pinot_table(table, placement)
        document["tableIndexConfig"] |= index
        controller.put_schema(pinot_schema(table), exists=False)
        controller.put_table(document, exists=False)
    controller.close()
    session = spark()
    try:
        rows = sum(write_samples(session, made, name, partitions, ROUNDS) for name in CLUSTERS)
    finally:
        session.stop()
    with closing(PinotClient(made.pinot_settings)) as client:
        for number in range(len(_INDEXES)):
            wait_for_rows(client, f"variant{number}", rows)
    print(f"{rows:,} samples of {len(CLUSTERS)} clusters in each table; median of {RUNS} runs in ms")


class _Renamed(PinotClient):
    """Client that queries another table instead of `partitionMetrics`."""

    def __init__(self, settings: PinotSettings, table: str) -> None:
        super().__init__(settings)
        self._table = table

    def ask(self, sql: str, parameters: Mapping[str, Value] | None = None) -> QueryResult:
        return super().ask(sql.replace("from partitionMetrics ", f"from {self._table} "), parameters)


def measure(made: Servers) -> None:
    """Print a row per index and a column per query, in ms."""
    columns = ("cluster", "two rounds", "ten topics", "offending", "freshness")
    print(f"  {'indexes':32}" + "".join(f"{name:>12}" for name in columns), flush=True)
    topics = [f"topic-{number:06}" for number in range(100, 110)]
    for number, name in enumerate(_INDEXES):
        with closing(_Renamed(made.pinot_settings, f"variant{number}")) as client:
            questions: list[Callable[[], object]] = [
                partial(partition_rates, client, "two", _ALL),
                partial(partition_rates, client, "two", _SHORT),
                partial(partition_rates, client, "two", _ALL, topics=topics),
                partial(offending_partitions, client, "two", _ALL, 20_000.0),
                partial(freshness, client, _ALL),
            ]
            taken = [_milliseconds(question) for question in questions]
        print(f"  {name:32}" + "".join(f"{value:12.0f}" for value in taken), flush=True)


def _milliseconds(question: Callable[[], object]) -> float:
    taken = []
    for _ in range(RUNS):
        began = time.perf_counter()
        question()
        taken.append((time.perf_counter() - began) * 1000)
    return statistics.median(taken)
