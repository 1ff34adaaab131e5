"""The queries of the Grafana dashboards, sent to a real Pinot like Grafana does."""

from __future__ import annotations

from typing import Final

import pytest

from pinot.partitions.rollups import HOUR_MS
from pinot.tables import PARTITION_METRICS
from tests.metrics_data import MetricsWorld, a_metric, fresh_name
from tests.unit.deploy.test_grafana_boards import QUESTIONS

pytestmark = [pytest.mark.servers, pytest.mark.deep]

HOUR: Final = 1_795_000_000_000 // HOUR_MS * HOUR_MS
USABLE: Final = 8_000_000.0


def test_the_hot_partition_is_on_the_board_in_every_way(metrics_world: MetricsWorld) -> None:
    cluster = fresh_name("board")
    rows = [
        a_metric(
            cluster,
            "t",
            partition,
            HOUR + 600_000 * round_,
            inflow_bytes_per_second=USABLE * 1.5 if partition == 3 and round_ else USABLE / 10,
        )
        for round_ in range(3)
        for partition in range(4)
    ]
    metrics_world.put(PARTITION_METRICS, rows, distinct=len(rows))
    filled = {
        "${__from}": str(HOUR),
        "${__to}": str(HOUR + HOUR_MS),
        "${cluster}": cluster,
        "${usable}": f"{USABLE:.0f}",
    }
    found = []
    for _, text in QUESTIONS:
        asked = text
        for variable, value in filled.items():
            asked = asked.replace(variable, value)
        answer = metrics_world.client.ask(asked, {})
        found.append([tuple(row) for row in answer.rows])
    offending, loads, by_topic, newest = found
    ((topic, number, p95, largest, share, below),) = offending
    assert (topic, number, p95, largest, share) == ("t", 3, USABLE * 1.5, USABLE * 1.5, 1.5)
    assert below == HOUR
    assert loads == [
        (HOUR + 600_000, "t-3", USABLE * 1.5),
        (HOUR + 1_200_000, "t-3", USABLE * 1.5),
    ]
    ((topic, partitions, mean, largest, skew),) = by_topic
    assert (topic, partitions, largest) == ("t", 4, USABLE * 1.5)
    assert skew == pytest.approx(largest / mean)
    assert [row[2:] for row in newest if row[0] == cluster] == [(HOUR + 1_200_000, 12)]
