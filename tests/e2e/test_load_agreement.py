"""Live loads of a service that measures for itself, against the brokers' own offsets and log sizes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from statistics import fmean
from typing import Any, Final
from uuid import uuid4

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from headrace.console.client import tls_context
from mirror.adapters.system_clock import SystemClock
from mirror.model.topics import TopicPartition
from mirror.settings import KafkaCluster
from pmp.adapters.cluster_probe import KafkaClusterProbe
from tests.e2e.conftest import NewInstance
from tests.kafka_data import make_topic
from tests.mirrored import create_datastream
from tests.patience import PATIENCE_SECONDS, wait_until
from tests.running import RunningInstance
from tests.servers import KafkaPair
from tests.traffic import traffic

pytestmark = [pytest.mark.servers, pytest.mark.long, pytest.mark.deep]

WRITTEN: Final = {0: 40_000, 1: 80_000, 2: 160_000, 3: 320_000}
"""Bytes per second of each partition, before the overhead of batches."""
WINDOW_SECONDS: Final = 30.0
TOLERATED: Final = 0.10

SUM: Final = -1
"""Stands for all partitions together."""

Rates = dict[int, float]


class Truth:
    """Records and bytes of a topic as the brokers know them."""

    def __init__(self, address: str, topic: str) -> None:
        self._probe = KafkaClusterProbe(KafkaCluster(bootstrap_servers=address), SystemClock())
        self._places = {number: TopicPartition(topic, number) for number in WRITTEN}
        self._began = self._probe.snapshot()

    @property
    def seconds(self) -> float:
        """Time since the window began."""
        return SystemClock().monotonic() - self._began.offsets_seconds

    def rates(self) -> dict[str, Rates]:
        """Return records and bytes per second of each partition, over the window that ends now."""
        now, before = self._probe.snapshot(), self._began
        self._probe.close()
        return {
            "records": self._rates(
                before.end_offsets, now.end_offsets, now.offsets_seconds - before.offsets_seconds
            ),
            "bytes": self._rates(before.size_bytes, now.size_bytes, now.sizes_seconds - before.sizes_seconds),
        }

    def _rates(
        self,
        before: Mapping[TopicPartition, float],
        now: Mapping[TopicPartition, float],
        seconds: float,
    ) -> Rates:
        return {number: (now[place] - before[place]) / seconds for number, place in self._places.items()}


def command(instance: RunningInstance, *words: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-m", "headrace", *words, "--at", instance.address, "--json"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=True,
    )
    return json.loads(done.stdout)


def surfaces(instance: RunningInstance, name: str) -> Iterator[tuple[str, str, Rates]]:
    """Yield each surface that shows rates, the unit, and the rates: by partition, or a sum as `SUM`."""
    loads = instance.rest.get(f"/v1/datastreams/{name}/loads")
    (glance,) = [one for one in instance.rest.get("/v1/overview")["datastreams"] if one["name"] == name]
    yield "overview", "bytes", {SUM: glance["bytes_per_second"]}
    yield "loads, sum", "bytes", {SUM: loads["bytes_per_second"]}
    for unit, key in (("bytes", "bytes_per_second"), ("records", "messages_per_second")):
        yield "loads", unit, {one["partition"]: one[key] for one in loads["partitions"]}
    lanes = {
        int(one["partition"].rpartition("-")[2]): one
        for one in command(instance, "lanes", "--datastream", name)["lanes"]
    }
    yield "headrace lanes", "bytes", {number: one["bytes_per_second"] for number, one in lanes.items()}
    copied = {number: one["per_second"]["records_copied"] for number, one in lanes.items()}
    yield "headrace lanes", "records", copied
    yield from metrics(instance, name)


def metrics(instance: RunningInstance, name: str) -> Iterator[tuple[str, str, Rates]]:
    """Yield what Prometheus reads."""
    page = httpx.get(f"http://{instance.address}/metrics", verify=tls_context()).text
    samples = [
        sample
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if sample.labels.get("datastream") == name
    ]
    for unit in ("bytes", "records"):
        (whole,) = [one.value for one in samples if one.name == f"headrace_{unit}_per_second"]
        yield "metric", unit, {SUM: whole}
        of_partitions = [one for one in samples if one.name == f"headrace_partition_{unit}_per_second"]
        yield (
            "metric of partitions",
            unit,
            {int(one.labels["partition"]): one.value for one in of_partitions},
        )


def seen_over(truth: Truth, instance: RunningInstance, name: str) -> dict[tuple[str, str], Rates]:
    """Return the mean of each rate on each surface, read again and again until the window is over."""
    seen: dict[tuple[str, str], dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    while truth.seconds < WINDOW_SECONDS:
        for surface, unit, rates in surfaces(instance, name):
            for number, rate in rates.items():
                seen[surface, unit][number].append(rate)
    return {key: {number: fmean(values) for number, values in rates.items()} for key, rates in seen.items()}


def deviation(found: Rates, true: Rates) -> float:
    """Return how far the worst of the numbers is from the brokers', as a share of theirs."""
    wanted = {SUM: sum(true.values())} if SUM in found else true
    assert found.keys() == wanted.keys()
    return max(abs(found[number] - wanted[number]) / wanted[number] for number in wanted)


def test_live_loads_on_all_surfaces_agree_with_the_brokers(
    kafka_pair: KafkaPair, new_instance: NewInstance
) -> None:
    topic = f"steady-{uuid4().hex[:8]}"
    make_topic(kafka_pair.source.address, topic, len(WRITTEN))
    one = new_instance("one", mirror__worker__metrics_interval_seconds="5")  # the default
    create_datastream(one, "steady", topic)
    with traffic(kafka_pair.source.address, {topic: WRITTEN}):
        wait_until(
            lambda: one.rest.get("/v1/datastreams/steady/loads")["known"] == len(WRITTEN), "loads are known"
        )
        seen_over(Truth(kafka_pair.source.address, topic), one, "steady")  # rates forget the start
        truth = Truth(kafka_pair.source.address, topic)
        found = seen_over(truth, one, "steady")
        true = truth.rates()
        (cluster,) = one.rest.get("/v1/loads")["clusters"]
    assert (cluster["state"], cluster["known"], cluster["held"]) == ("known", len(WRITTEN), 0)
    worst = {f"{surface}, {unit}": deviation(rates, true[unit]) for (surface, unit), rates in found.items()}
    print("\n".join(f"{surface}: {share:.1%}" for surface, share in worst.items()))
    assert len(worst) == 10
    assert max(worst.values()) <= TOLERATED, worst
