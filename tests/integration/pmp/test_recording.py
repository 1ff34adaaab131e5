"""A recording of a real Cruise Control, replayed through the job and Pinot, compared with the real writes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

from mirror.settings import KafkaCluster
from pinot.client import PinotClient
from pmp.job.streams import Configuration, start_stream, streams
from pmp.settings import JobSettings, PmpSettings, SampledCluster
from stack.pinot import PinotServer
from tests.kafka_data import make_topic
from tests.metrics_data import fresh_name, recorded_samples, recorded_truth, write_values
from tests.patience import PATIENCE_SECONDS, wait_until
from tests.servers import KafkaPair

pytestmark = [pytest.mark.servers, pytest.mark.deep]

MINUTE_MS = 60_000
LEAST_BYTES_PER_SECOND = 500


class Truth:
    """Log size of each partition at any time."""

    def __init__(self) -> None:
        lines = [line for line in recorded_truth() if "log" in line]
        self.begin_ms, self.end_ms = lines[0]["t_ms"], lines[-1]["t_ms"]
        points: dict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
        for line in lines:
            for topic, sizes in line["log"].items():
                for number, size in enumerate(sizes):
                    points[topic, number].append((line["t_ms"], size))
        self._points = {key: np.array(values, float) for key, values in points.items()}

    def rate(self, topic: str, number: int, until_ms: int) -> float | None:
        """Return the bytes per second of the preceding minute; None for a younger partition."""
        points = self._points[topic, number]
        if points[0, 0] > until_ms - MINUTE_MS:
            return None
        ends = np.interp([until_ms - MINUTE_MS, until_ms], points[:, 0], points[:, 1])
        return float(ends[1] - ends[0]) / 60

    def step_ms(self) -> int:
        """Return the time at which two partitions of cc_skew changed their rates."""
        (line,) = (x for x in recorded_truth() if "cc_skew p0" in x.get("event", ""))
        return int(line["t_ms"])


@pytest.fixture(scope="module")
def truth() -> Truth:
    return Truth()


@pytest.fixture(scope="module")
def loads(
    spark: SparkSession,
    kafka_pair: KafkaPair,
    pinot_server: PinotServer,
    pinot_client: PinotClient,
    tmp_path_factory: pytest.TempPathFactory,
) -> Any:
    """Return `headrace pmp loads` for the replayed recording, as a function of the window's end."""
    folder = tmp_path_factory.mktemp("recording")
    cluster = fresh_name("recorded")
    source, destination = kafka_pair.source.address, kafka_pair.destination.address
    topic = f"__{cluster}"
    make_topic(source, topic, 32)
    by_partition: dict[int, list[bytes]] = defaultdict(list)
    for record in recorded_samples():
        by_partition[record["partition"]].append(bytes.fromhex(record["value"]))
    for partition, values in by_partition.items():
        write_values(source, topic, values, partition)
    settings = PmpSettings(
        clusters={cluster: SampledCluster(samples_topic=topic)},
        job=JobSettings(checkpoint_folder=str(folder / "spark"), trigger_interval_seconds=0),
        output_cluster="out",
    )
    clusters = {
        name: KafkaCluster(bootstrap_servers=a) for name, a in ((cluster, source), ("out", destination))
    }
    stream = streams(Configuration(settings, clusters, retention_days=3650))[cluster]
    query = start_stream(spark, settings, stream)
    query.processAllAvailable()
    query.stop()
    produced = sum(not _topic_of(record).startswith("__") for record in recorded_samples())

    def counted() -> bool:
        count = "select count(*) from partitionMetrics where cluster = %(c)s limit 1"
        return bool(pinot_client.ask(count, {"c": cluster}).rows == [[produced]])

    wait_until(counted, f"{produced} samples in Pinot")
    config = folder / "headrace.toml"
    config.write_text(
        f"""
        [clusters.{cluster}]
        bootstrap_servers = "{source}"
        [clusters.destination]
        bootstrap_servers = "{destination}"
        [pinot]
        controller = "{pinot_server.controller_address}"
        broker = "{pinot_server.broker_address}"
        [pmp.clusters.{cluster}]
        samples_topic = "{topic}"
        """
    )

    def ask(until_ms: int) -> dict[tuple[str, int], dict[str, Any]]:
        command = [sys.executable, "-m", "headrace", "pmp", "loads", "--config", str(config)]
        command += ["--cluster", cluster, "--at", str(until_ms), "--window", "60s", "--statistic", "mean"]
        done = subprocess.run(
            [*command, "--json"], capture_output=True, text=True, check=True, timeout=PATIENCE_SECONDS
        )
        return {(row["topic"], row["partition"]): row for row in json.loads(done.stdout)}

    return ask


def _topic_of(record: dict[str, Any]) -> str:
    return bytes.fromhex(record["value"])[89:].decode()


def _window_ends(truth: Truth) -> list[int]:
    """Return ends of one-minute windows at sample times, after the second minute."""
    times = sorted({record["timestamp"] for record in recorded_samples()})
    return [t for t in times if truth.begin_ms + 3 * MINUTE_MS <= t <= truth.end_ms][::4]


def test_rates_are_the_true_ones_and_say_where_they_come_from(truth: Truth, loads: Any) -> None:
    errors, topic_errors = [], []
    for until_ms in _window_ends(truth):
        answer = loads(until_ms)
        sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
        for (topic, number), row in answer.items():
            rate = truth.rate(topic, number, until_ms)
            if rate is None:
                continue
            assert row["level"] == "partition"
            assert row["rate_source"] == "slope"
            sums[topic][0] += row["bytes_in_per_second"]
            sums[topic][1] += rate
            if rate > LEAST_BYTES_PER_SECOND:
                errors.append(abs(row["bytes_in_per_second"] - rate) / rate)
        topic_errors += [abs(found - rate) / rate for found, rate in sums.values() if rate]
    print(f"{len(errors)} rates: median {np.median(errors):.2%}, p90 {np.quantile(errors, 0.9):.2%}")
    print(f"{len(topic_errors)} topic sums: largest error {max(topic_errors):.2%}")
    assert len(errors) > 200
    assert np.median(errors) <= 0.01
    assert np.quantile(errors, 0.9) <= 0.05
    assert max(topic_errors) <= 0.01


def test_a_step_in_load_shows_within_one_window(truth: Truth, loads: Any) -> None:
    until_ms = truth.step_ms() + MINUTE_MS + 15_000  # samples are 10 s apart
    answer = loads(until_ms)
    for number in (0, 7):
        rate = truth.rate("cc_skew", number, until_ms)
        assert rate is not None
        assert abs(answer["cc_skew", number]["bytes_in_per_second"] - rate) / rate < 0.05


def test_messages_follow_the_bytes(truth: Truth, loads: Any) -> None:
    until_ms = _window_ends(truth)[0]
    answer = loads(until_ms)
    quiet, busy = answer["cc_skew", 7], answer["cc_skew", 0]
    assert 0.5 < quiet["messages_in_per_second"] < 2  # 1 record per second was written
    assert 350 < busy["messages_in_per_second"] < 450  # 400 records per second were written
