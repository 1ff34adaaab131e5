"""`headrace plan --since` reads whole hours of a cluster's samples from the real Pinot."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from assigner.forecast.outlook import outlook
from headrace.__main__ import main
from headrace.foresight import replays
from headrace.foresight.replays import from_file, from_pinot
from headrace.settings import HeadraceSettings, load_settings
from mirror.adapters.system_clock import SystemClock
from mirror.errors import LoadUnavailable
from mirror.model.topics import TopicPartition
from pinot.client import PinotClient
from pinot.tables import PARTITION_METRICS, PARTITION_METRICS_HOURLY, LogGrowth, PartitionMetricHourly
from stack.pinot import PinotServer
from tests.fakes.clock import ManualClock
from tests.metrics_data import MetricsWorld, a_metric, a_rollup, apply_tables, fresh_name, pinot_settings
from tests.servers import KafkaPair

pytestmark = [pytest.mark.servers, pytest.mark.deep]

HOUR_MS = 3_600_000
ROLLED_UP = 120
BUSY_HOUR_AGO = 12


@pytest.fixture(scope="module")
def settings(pinot_server: PinotServer, tmp_path_factory: pytest.TempPathFactory) -> HeadraceSettings:
    file = tmp_path_factory.mktemp("plan") / "headrace.toml"
    reached = pinot_settings(pinot_server)
    file.write_text(f'[pinot]\ncontroller = "{reached.controller}"\nbroker = "{reached.broker}"\n')
    return load_settings(file)


@pytest.fixture(scope="module")
def clock() -> ManualClock:
    """Return a stopped clock, since an hour may end while tests run."""
    return ManualClock(SystemClock().now_ms())


@pytest.fixture(autouse=True)
def _asked_then(clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replays, "SystemClock", lambda: clock)


@pytest.fixture(scope="module")
def recorded(pinot_server: PinotServer, kafka_pair: KafkaPair, clock: ManualClock) -> str:
    """Return a cluster with a load of 1000 B/s on partition 0 two hours ago, and 4000 an hour ago.

    Partition 1 carried 50.

    The five days before have rollups only: 0 carried 100 B/s, and 700 in one hour of each day.
    """
    apply_tables(pinot_server, kafka_pair.destination.address)
    cluster = fresh_name("replay")
    this_hour = clock.now_ms() // HOUR_MS * HOUR_MS
    rows = [
        a_metric(
            cluster,
            "orders",
            partition,
            this_hour - ago * HOUR_MS + 60_000 * minute,
            inflow_bytes_per_second=rate,
            bytes_in_per_second=rate,
            growth_bytes=rate * 60,
            growth_ms=60_000,
        )
        for ago, rates in ((2, (1000.0, 50.0)), (1, (4000.0, 50.0)))
        for partition, rate in enumerate(rates)
        for minute in (10, 20, 30)
    ]
    rollups = [a_rolled_up_hour(cluster, this_hour, ago) for ago in range(ROLLED_UP, 2, -1)]
    client = PinotClient(pinot_settings(pinot_server))
    world = MetricsWorld(client, kafka_pair.destination.address)
    world.put(PARTITION_METRICS, rows)
    world.put(PARTITION_METRICS_HOURLY, rollups)
    client.close()
    return cluster


def a_rolled_up_hour(cluster: str, this_hour: int, ago: int) -> PartitionMetricHourly:
    rate = 700.0 if ago % 24 == BUSY_HOUR_AGO else 100.0
    row = a_rollup(cluster, 0, this_hour - ago * HOUR_MS, rate, "orders")
    return replace(row, growth=LogGrowth(rate * 3600, HOUR_MS))


def test_hours_are_read_and_the_day_replayed(
    settings: HeadraceSettings,
    recorded: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    hours, notes = from_pinot(settings, recorded, "7d")
    assert len(notes) == 1
    assert notes[0].startswith(f"{ROLLED_UP} of 169 ")
    loads = [
        {partition: load.bytes_per_second for partition, load in hours[hour].items()}
        for hour in sorted(hours)[-2:]
    ]
    first, second = TopicPartition("orders", 0), TopicPartition("orders", 1)
    assert [round(hour[first]) for hour in loads] == [1000, 4000]
    assert [round(hour[second]) for hour in loads] == [50, 50]
    config = tmp_path / "headrace.toml"
    config.write_text(
        f'[pinot]\ncontroller = "{settings.pinot.controller}"\nbroker = "{settings.pinot.broker}"\n'
        "[mirror.leader]\ntask_capacity_bytes_per_second = 1000\ntask_utilisation_percent = 100\n"
    )
    arguments = ["headrace", "plan", "--since", "3h", "--cluster", recorded, "--config", str(config)]
    monkeypatch.setattr(sys, "argv", arguments)
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    printed = capsys.readouterr()
    answer = json.loads(printed.out)
    assert answer["notes"][0].startswith("3 of 4 ")
    assert answer["notes"][0] in printed.err
    assert [hour["required_tasks"] for hour in answer["hours"]][1:] == [2, 2]
    assert [round(hour["bytes_per_second"]) for hour in answer["hours"]][1:] == [1050, 4050]


def test_the_past_before_the_samples_is_read_from_rollups_and_forecast(
    settings: HeadraceSettings, recorded: str, clock: ManualClock
) -> None:
    hours, _ = from_pinot(settings, recorded, "7d")
    found = outlook(hours, 24, 0.9)
    assert max(hours) + HOUR_MS == found.first_ms
    busy = [number for number, high in enumerate(found.totals.high) if 600 < high < 800]
    newest_ago = (clock.now_ms() // HOUR_MS * HOUR_MS - max(hours)) // HOUR_MS
    assert busy == [24 - BUSY_HOUR_AGO + newest_ago - 1]


def test_the_past_is_exported_and_read_again(
    settings: HeadraceSettings, recorded: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, file = tmp_path / "headrace.toml", tmp_path / "loads.csv"
    config.write_text(
        f'[pinot]\ncontroller = "{settings.pinot.controller}"\nbroker = "{settings.pinot.broker}"\n'
    )
    options = ["--since", "3h", "--cluster", recorded, "--config", str(config), "--anonymise"]
    monkeypatch.setattr(sys, "argv", ["headrace", "loads", "export", str(file), *options])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    assert "orders" not in file.read_text()
    hours = from_file(file)
    newest = {str(partition): round(load.bytes_per_second) for partition, load in hours[max(hours)].items()}
    assert newest == {"topic-1-0": 4000, "topic-1-1": 50}


@pytest.mark.usefixtures("recorded")
def test_a_cluster_without_samples_is_named(settings: HeadraceSettings) -> None:
    with pytest.raises(LoadUnavailable, match=r"\bnowhere\b"):
        from_pinot(settings, "nowhere", "2h")
