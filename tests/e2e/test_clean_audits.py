"""Audits without a fault of the copy: kills, compaction, transactions, retention and late records."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from random import Random
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from tests.e2e.conftest import NewInstance
from tests.kafka_data import admin_client, counts, delete_records, make_topic
from tests.metrics_data import fresh_name
from tests.patience import PATIENCE_SECONDS, wait_until
from tests.running import RunningInstance
from tests.servers import NewKafka

pytestmark = [pytest.mark.servers, pytest.mark.long, pytest.mark.deep]

RUNS = 10
TOGETHER = 2
"""Runs that are carried out at the same time, with the same kill."""
ROUNDS = 6
CLEANING = {"log.cleaner.backoff.ms": 200, "log.retention.check.interval.ms": 500}
SEGMENTS = {"segment_ms": "300", "file_delete_delay_ms": "100"}
COMPACTED = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": "0.01", "delete_retention_ms": "100"}
LATE_MS = 300_000


def test_ten_clean_runs_have_no_false_verdict(new_kafka: NewKafka, new_instance: NewInstance) -> None:
    with ThreadPoolExecutor() as pool:
        made = pool.map(lambda name: new_kafka(name, properties=CLEANING), ("one", "two"))
        source, destination = (cluster.address for cluster in made)
    settings = {
        "clusters__source__bootstrap_servers": source,
        "clusters__destination__bootstrap_servers": destination,
        "mirror__audit__interval_seconds": "0.5",
        "mirror__audit__window_seconds": "60",
        "mirror__audit__lateness_seconds": str(LATE_MS // 1_000),
    }
    living, victim = (new_instance(name, **settings) for name in ("one", "two"))
    for first in range(0, RUNS, TOGETHER):
        runs = [CleanRun(source, destination, living, first + number) for number in range(TOGETHER)]
        for run, found in zip(runs, audits(runs, victim), strict=True):
            assert [topic["faults"] for topic in found] == [[]] * len(found), f"run {run.seed}: {found}"


def audits(runs: Sequence[CleanRun], victim: RunningInstance) -> list[list[dict[str, Any]]]:
    """Carry the runs out, and return the audits of the topics of each."""
    for run in runs:
        run.begin()
    for run in runs:
        run.wait_for_copies()
        run.expire()
    for number in range(ROUNDS):
        if number == 1:
            victim.kill()
        if number == 3:
            victim.start()
        for run in runs:
            run.write()
        for run in runs:
            run.wait_for_copies()
            if number == 4:
                run.delete_a_quarter()
    ended_ms = time.time() * 1_000
    return [wait_until(partial(run.complete, ended_ms), "all records are audited") for run in runs]


class CleanRun:
    """Topics that are compacted, transactional, deleted by retention, and late."""

    def __init__(self, source: str, destination: str, instance: RunningInstance, seed: int) -> None:
        self.source, self.destination, self.instance, self.seed = source, destination, instance, seed
        self.random, self.name = Random(seed), fresh_name("clean")
        self.topics = [f"{self.name}.{kind}" for kind in ("compacted", "transactional", "expiring", "late")]
        make_topic(source, self.topics[0], 2, **SEGMENTS, **COMPACTED)
        for topic in self.topics[1:]:
            make_topic(source, topic, 2, **SEGMENTS)
        self.producer = Producer({"bootstrap.servers": source})
        self.transactions = Producer({"bootstrap.servers": source, "transactional.id": self.name})
        self.transactions.init_transactions(PATIENCE_SECONDS)
        self.mode = ("full", "counts", "sampled")[seed % 3]

    def begin(self) -> None:
        """Write the first records and create the datastream."""
        self.write()
        definition = {
            "name": self.name,
            "source": {"cluster": "source", "topics": f"{self.name}\\..*"},
            "destination": {"cluster": "destination", "name": "copy.*"},
            "metadata": {"owner": "tests"},
            "audit": self.mode,
        }
        self.instance.rest.post("/v1/datastreams", definition)

    def write(self) -> None:
        """Write records of every kind."""
        now_ms, compacted, random = time.time_ns() // 1_000_000, self.topics[0], self.random
        for partition in (0, 1):
            for _ in range(random.randint(5, 40)):
                key, value = b"%d" % random.randint(0, 5), random.choice([None, random.randbytes(40)])
                self.producer.produce(compacted, value, key, partition, timestamp=now_ms)
                self.producer.produce(self.topics[2], random.randbytes(20), None, partition)
                late_ms = now_ms - random.randint(0, LATE_MS)
                self.producer.produce(
                    self.topics[3], random.randbytes(20), None, partition, timestamp=late_ms
                )
        self.producer.flush(PATIENCE_SECONDS)
        for _ in range(random.randint(1, 3)):
            self.transactions.begin_transaction()
            for number in range(random.randint(1, 9)):
                self.transactions.produce(self.topics[1], b"%d" % number, None, number % 2)
            if random.random() < 0.4:
                self.transactions.abort_transaction(PATIENCE_SECONDS)
            else:
                self.transactions.commit_transaction(PATIENCE_SECONDS)

    def wait_for_copies(self) -> None:
        """Wait until the lanes have no lag."""

        def is_copied() -> bool:
            lanes = self.instance.rest.get("/v1/lanes", datastream=self.name)["lanes"]
            return len(lanes) == 2 * len(self.topics) and all(one["lag_records"] == 0 for one in lanes)

        wait_until(is_copied, "all records are copied")

    def expire(self) -> None:
        """Let the destination delete the records of a topic after a second."""
        entry = ConfigEntry("retention.ms", "1000", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, f"copy.{self.topics[2]}", incremental_configs=[entry])
        admin = admin_client(self.destination)
        (change,) = admin.incremental_alter_configs([resource]).values()
        change.result(PATIENCE_SECONDS)

    def delete_a_quarter(self) -> None:
        """Delete records of the topic with late records at the source."""
        copied = counts(self.source, self.topics)[self.topics[3]]
        delete_records(self.source, self.topics[3], 0, copied // 4)

    def complete(self, ended_ms: float) -> list[dict[str, Any]]:
        """Return the audits of the topics once they have faults or cover all records; otherwise nothing."""
        found = self.instance.rest.get("/v1/audits", datastream=self.name)["topics"]
        has_faults = any(topic["faults"] for topic in found)
        through = [topic["complete_through_ms"] or 0 for topic in found]
        is_over = len(found) == len(self.topics) and min(through, default=0) >= ended_ms - LATE_MS
        return list(found) if has_faults or (is_over and not any(t["waiting_offsets"] for t in found)) else []
