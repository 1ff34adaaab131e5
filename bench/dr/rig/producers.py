"""Producers on one cluster, with counts of their acknowledged records."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka import KafkaException, Message, Producer

from bench.dr.rig.secured import APPLICATION, ROGUE, client_settings
from stack.kafka import KafkaCluster

NUMBER: Final = 50
_PAUSE_SECONDS: Final = 0.05
"""Time between two records of a producer."""
_FLUSH_SECONDS: Final = 60.0
_RECENT_SECONDS: Final = 1.0
Content = tuple[str, int, bytes | None]
"""Topic, partition and value, which is unique."""


@dataclass
class Written:
    """Records that have been acknowledged by either cluster."""

    records: list[Content] = field(default_factory=list)
    begun: int = 0

    def contents(self) -> Counter[Content]:
        """Return the contents of the acknowledged records."""
        return Counter(self.records)


class Producers:
    """Producers that write 20 records per second each. The first `rogues` producers are super users.

    `first_ms` and `last_ms`: time of the first and of the last acknowledgement (epoch milliseconds).
    """

    def __init__(
        self, cluster: KafkaCluster, topics: Sequence[str], partitions: int, rogues: int, written: Written
    ) -> None:
        self.number = NUMBER
        self.first_ms = self.last_ms = 0
        self._places = [(topic, number) for number in range(partitions) for topic in topics]
        self._rogues = rogues
        self._written = written
        self._cluster = cluster
        self._recent: dict[int, float] = {}
        self._rogue_ids: set[int] = set()
        self._rogue_offsets: list[tuple[str | None, int | None, int | None]] = []
        self._stopping = threading.Event()

    @property
    def are_writing(self) -> bool:
        """Return whether each producer has received an acknowledgement within the last second."""
        since = time.monotonic() - _RECENT_SECONDS
        return sum(moment > since for moment in list(self._recent.values())) == NUMBER

    def rogue_batches(self) -> set[str]:
        """Return the names of the super users, and the partitions and offsets of their records."""
        return {
            f"producer id {identity} wrote to {topic}-{number} at offset {offset} "
            for identity in self._rogue_ids
            for topic, number, offset in self._rogue_offsets
        }

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Write until the end of the context."""
        thread = threading.Thread(target=self._write, name="producers")
        thread.start()
        try:
            yield
        finally:
            self._stopping.set()
            thread.join()

    def _write(self) -> None:
        producers = [self._producer(index) for index in range(NUMBER)]
        cycle, due = 0, time.monotonic()
        while not self._stopping.is_set():
            for index, producer in enumerate(producers):
                self._write_one(index, producer, cycle)
            cycle += 1
            due = max(due + _PAUSE_SECONDS, time.monotonic())
            self._stopping.wait(due - time.monotonic())
        for producer in producers:
            assert producer.flush(_FLUSH_SECONDS) == 0

    def _write_one(self, index: int, producer: Producer, cycle: int) -> None:
        topic, number = self._places[(index + NUMBER * cycle) % len(self._places)]
        self._written.begun += 1
        value = b"%d of %d" % (self._written.begun, index)

        def note(error: object, message: Message) -> None:
            if error is not None:
                return  # denied
            self.last_ms = int(time.time() * 1000)
            self.first_ms = self.first_ms or self.last_ms
            self._recent[index] = time.monotonic()
            self._written.records.append((topic, number, value))
            if index < self._rogues:
                self._rogue_offsets.append((message.topic(), message.partition(), message.offset()))

        try:
            producer.produce(topic, value, b"key", number, on_delivery=note)
        except KafkaException as error:
            if error.args[0].fatal():
                raise
        producer.poll(0)

    def _producer(self, index: int) -> Producer:
        is_rogue = index < self._rogues
        more: dict[str, Any] = {"stats_cb": self._note_identity, "statistics.interval.ms": 500}
        return Producer(
            {
                **client_settings(self._cluster, ROGUE if is_rogue else APPLICATION),
                "client.id": f"bench-{index}",
                "enable.idempotence": True,
                "linger.ms": 5,
                "topic.metadata.refresh.interval.ms": 1_000,
                "log_level": 0,
                **(more if is_rogue else {}),
            }
        )

    def _note_identity(self, text: str) -> None:
        identity = json.loads(text).get("eos", {}).get("producer_id", -1)
        if identity >= 0:
            self._rogue_ids.add(identity)
