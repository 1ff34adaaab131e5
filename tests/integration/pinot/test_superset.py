"""The Superset bundle, imported into a real Superset that queries a real Pinot."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest

from deploy.superset.bundle import USABLE, files, main
from pinot.partitions.rollups import HOUR_MS
from pinot.tables import MIRROR_METRICS, PARTITION_METRICS
from stack.pinot import PinotServer
from tests.metrics_data import MetricsWorld, a_measurement, a_metric, fresh_name
from tests.superset import Superset

pytestmark = [pytest.mark.servers, pytest.mark.deep]

HOUR: Final = 1_790_000_000_000 // HOUR_MS * HOUR_MS


def test_every_chart_has_something_to_show(
    metrics_world: MetricsWorld, pinot_server: PinotServer, tmp_path: Path
) -> None:
    cluster = fresh_name("superset")
    busy = [a_metric(cluster, "t", 0, HOUR + 60_000 * at, inflow_bytes_per_second=9e6) for at in range(3)]
    calm = [a_metric(cluster, "t", 1, HOUR + 60_000 * at, inflow_bytes_per_second=1e6) for at in range(3)]
    metrics_world.put(PARTITION_METRICS, busy + calm)
    metrics_world.put(MIRROR_METRICS, [a_measurement("orders", cluster, 0, HOUR, 10, 0)])

    superset = Superset(tmp_path)
    packed = tmp_path / "headrace.zip"
    main([str(packed)])
    superset.take(packed)
    superset.take(packed)  # replaces the previous import

    start, end = (datetime.fromtimestamp(ms / 1000, UTC) for ms in (HOUR, HOUR + HOUR_MS))
    answers = superset.answers(
        f"pinot://{pinot_server.broker_address}/query/sql?controller=http://{pinot_server.controller_address}/",
        f"{start:%Y-%m-%dT%H:%M:%S} : {end:%Y-%m-%dT%H:%M:%S}",
    )
    assert len(answers) == sum(path.startswith("charts/") for path in files())
    for title, answer in answers.items():
        assert answer["error"] is None, f"{title}: {answer}"
        assert answer["rows"], title
    busiest = [one for one in answers["Offending partitions"]["rows"] if one["cluster"] == cluster]
    assert [(one["kafka_partition"], one["samples"]) for one in busiest] == [(0, 3), (1, 3)]
    assert [one["share_of_a_task"] for one in busiest] == [9e6 / USABLE, 1e6 / USABLE]
    for title, by in (("Offending partitions", "share_of_a_task"), ("Skewed topics", "skew")):
        shown = [one[by] for one in answers[title]["rows"]]
        assert shown == sorted(shown, reverse=True), f"{title}: not in descending order"
    (skewed,) = [one for one in answers["Skewed topics"]["rows"] if one["cluster"] == cluster]
    assert (skewed["skew"], skewed["partitions"]) == (9 / 5, 2)
