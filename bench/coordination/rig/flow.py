"""Steady stream of numbered records to each partition, with the times of their arrival at the destination."""

from __future__ import annotations

import bisect
import itertools
import threading
import time
from collections.abc import Iterable

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

RATE = 50
"""Records per second and partition; gaps are measured to within 20 ms."""
_RECONNECT = {"reconnect.backoff.ms": 50, "reconnect.backoff.max.ms": 200, "log_level": 0}
"""Fast reconnects, so that the clients add no gap of their own to those they measure."""


class Flow:
    """Producer and consumer of a steady stream, which run while in the context. Times are monotonic
    seconds."""

    def __init__(self, source: str, destination: str, topic: str, partitions: int) -> None:
        self._source, self._destination = source, destination
        self.topic, self.partitions = topic, partitions
        self._stop = threading.Event()
        self._is_settling = threading.Event()
        self._sent = [0] * partitions
        self._arrived: list[list[float]] = [[] for _ in range(partitions)]
        self._numbers: list[list[int]] = [[] for _ in range(partitions)]
        self._threads = [threading.Thread(target=self._produce), threading.Thread(target=self._consume)]
        for address in (source, destination):
            admin = AdminClient({"bootstrap.servers": address})
            admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(timeout=30)

    def __enter__(self) -> Flow:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def silence(self, partition: int, since: float, until: float) -> float:
        """Return the longest time without an arrival in a partition within the window."""
        times = self._arrived[partition]
        inside = times[bisect.bisect_left(times, since) : bisect.bisect_right(times, until)]
        marks = [since, *inside, until]
        return max(later - sooner for sooner, later in itertools.pairwise(marks))

    def longest_silence(self, partitions: Iterable[int], since: float, until: float) -> float:
        """Return the longest time without an arrival in any of the partitions."""
        return max((self.silence(partition, since, until) for partition in partitions), default=0.0)

    def flows_since(self, moment: float) -> bool:
        """Return whether a record has arrived in every partition since this moment."""
        return all(times and times[-1] > moment for times in self._arrived)

    def first_since(self, moment: float) -> list[float]:
        """Return the time of each partition's first arrival after this moment. Requires that `flows_since` is
        true."""
        return [times[bisect.bisect_right(times, moment)] for times in self._arrived]

    def counts(self) -> tuple[int, int, int]:
        """Return the records sent, missing and repeated so far; call `settle` first."""
        sent = sum(self._sent)
        missing = sum(n - len(set(found)) for n, found in zip(self._sent, self._numbers, strict=True))
        repeated = sum(len(found) - len(set(found)) for found in self._numbers)
        return sent, missing, repeated

    def settle(self, timeout_seconds: float) -> None:
        """Stop producing and wait until all records have arrived, or until the timeout."""
        self._is_settling.set()
        until = time.monotonic() + timeout_seconds
        while self.counts()[1] and time.monotonic() < until:
            self._stop.wait(0.1)

    def _produce(self) -> None:
        settings = {"bootstrap.servers": self._source, "enable.idempotence": True, "linger.ms": 0}
        producer = Producer(settings | _RECONNECT)
        due = time.monotonic()
        while not self._stop.wait(max(0.0, due - time.monotonic())):
            due += 1 / RATE
            if self._is_settling.is_set():
                continue
            for partition in range(self.partitions):
                number = self._sent[partition]
                producer.produce(self.topic, number.to_bytes(8, "big"), partition=partition)
                self._sent[partition] += 1
            producer.poll(0)
        producer.flush(30)

    def _consume(self) -> None:
        consumer = Consumer(
            {"bootstrap.servers": self._destination, "group.id": "bench", "fetch.wait.max.ms": 10}
            | _RECONNECT
        )
        consumer.assign([TopicPartition(self.topic, n, OFFSET_BEGINNING) for n in range(self.partitions)])
        while not self._stop.is_set():
            for message in consumer.consume(500, 0.1):
                value, partition = message.value(), message.partition()
                if message.error() is None and value is not None and partition is not None:
                    self._numbers[partition].append(int.from_bytes(value, "big"))
                    self._arrived[partition].append(time.monotonic())
        consumer.close()
