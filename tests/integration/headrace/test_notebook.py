"""The notebook runs as it is, from loads in the real Pinot to a plan and a picture of both."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from bench.pages.rig.outputs import SVG
from mirror.adapters.system_clock import SystemClock
from pinot.client import PinotClient
from pinot.tables import PARTITION_METRICS, PartitionMetric
from stack.pinot import PinotServer
from tests.metrics_data import MetricsWorld, a_metric, apply_tables, fresh_name, pinot_settings
from tests.notebooks import NOTEBOOKS, executed, outputs_of
from tests.servers import KafkaPair

pytestmark = [pytest.mark.servers, pytest.mark.deep]

MINUTE_MS: Final = 60_000
RATES: Final = (4000.0, 900.0, 500.0, 500.0, 100.0, 0.0)
"""Bytes per second by partition: one that no task can hold, a few, and a silent one."""


def heavy_tail(cluster: str, now_ms: int) -> list[PartitionMetric]:
    return [
        a_metric(
            cluster,
            "orders",
            partition,
            now_ms - minute * MINUTE_MS,
            inflow_bytes_per_second=rate,
            bytes_in_per_second=rate,
            growth_bytes=rate * 60,
            growth_ms=MINUTE_MS,
        )
        for partition, rate in enumerate(RATES)
        for minute in (1, 2, 3)
    ]


@pytest.fixture
def recorded(pinot_server: PinotServer, kafka_pair: KafkaPair) -> str:
    """A cluster with a heavy-tailed load over the last minutes."""
    apply_tables(pinot_server, kafka_pair.destination.address)
    cluster = fresh_name("notebook")
    client = PinotClient(pinot_settings(pinot_server))
    world = MetricsWorld(client, kafka_pair.destination.address)
    world.put(PARTITION_METRICS, heavy_tail(cluster, SystemClock().now_ms()))
    client.close()
    return cluster


@pytest.fixture
def config(pinot_server: PinotServer, tmp_path: Path) -> Path:
    """Settings in which a task carries 1000 B/s."""
    reached = pinot_settings(pinot_server)
    file = tmp_path / "headrace.toml"
    file.write_text(
        f'[pinot]\ncontroller = "{reached.controller}"\nbroker = "{reached.broker}"\n'
        "[mirror.leader]\ntask_capacity_bytes_per_second = 1000\ntask_utilisation_percent = 100\n"
    )
    return file


def test_the_notebook_shows_the_loads_the_plan_and_a_picture_of_both(recorded: str, config: Path) -> None:
    cells = executed(
        NOTEBOOKS / "01-from-load-to-plan.ipynb",
        {
            "HEADRACE_CONFIG": str(config),
            "NOTEBOOK_CLUSTER": recorded,
            "NOTEBOOK_WINDOW_SECONDS": "600",
        },
    )
    loads, plan, tasks, *_ = outputs_of(cells, "text/plain")
    rates = [float(rate) for rate in re.findall(r"orders\s+\d+\s+([\d.]+)", loads)]
    assert [round(rate, -1) for rate in rates] == sorted(RATES, reverse=True)
    assert plan.endswith("offending partitions:\n  orders-0\n")
    held = [int(number) for number in re.findall(r"^\d+\s+\S+\s+(\d+)\s", tasks, re.MULTILINE)]
    assert sum(held) == len(RATES)
    assert len(held) == 3, "one task for 4000, two for the other 2000 B/s"
    assert len(outputs_of(cells, SVG)) == 1
    (ratio,) = re.findall(r"max/mean ([\d.]+)", "".join(outputs_of(cells, "text/plain")))
    assert float(ratio) == pytest.approx(2.0, abs=0.01)
