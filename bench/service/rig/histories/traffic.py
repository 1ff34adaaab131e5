"""Steady traffic to several topics, and the time at which each record arrives at the destination."""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from bench.service.rig.histories.truth import Arrivals

PER_SECOND: Final = 10
"""Records per second and partition."""
_SENT: Final = struct.Struct(">d")
_PADDING: Final = b"." * 400
_RECONNECT: Final = {"reconnect.backoff.ms": 50, "reconnect.backoff.max.ms": 200, "log_level": 0}
_LATELY_SECONDS: Final = 2.0


class Traffic:
    """Producer and consumer, running while in the context. `topics`: number of partitions of each topic. A
    record contains the time at which it was sent, independently of its timestamp."""

    def __init__(self, source: str, destination: str, topics: Mapping[str, int], limit: float) -> None:
        self._source, self._destination, self._topics, self.limit = source, destination, dict(topics), limit
        self.factors: dict[str, int] = {}
        """Multiples of the usual rate, by topic."""
        self.clock_offset = 0.0
        """Seconds by which timestamps are ahead."""
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._arrivals = {(name, n): Arrivals() for name, count in topics.items() for n in range(count)}
        self._threads = [threading.Thread(target=one) for one in (self._produce, self._consume)]
        self.failure: Exception | None = None

    def __enter__(self) -> Traffic:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def is_in_time(self) -> bool:
        """Return whether a record has just arrived in time in every partition."""
        now = time.time()
        with self._lock:
            return all(
                arrival.newest > now - _LATELY_SECONDS and arrival.newest_age <= self.limit
                for arrival in self._arrivals.values()
            )

    def was_late_since(self, moment: float) -> bool:
        """Return whether a record has arrived late since then."""
        with self._lock:
            return any(arrival.late and arrival.late[-1][1] > moment for arrival in self._arrivals.values())

    def late(self, topics: Sequence[str]) -> list[tuple[float, float]]:
        """Return the times at which late records of the topics were sent and arrived."""
        with self._lock:
            return [
                times for (name, _), one in self._arrivals.items() if name in topics for times in one.late
            ]

    def _produce(self) -> None:
        settings = {
            "bootstrap.servers": self._source,
            "enable.idempotence": True,
            "linger.ms": 5,
            "message.timeout.ms": 300_000,
        }
        producer = Producer(settings | _RECONNECT)
        due = time.monotonic()
        while not self._stop.wait(max(0.0, due - time.monotonic())):
            due += 1 / PER_SECOND
            sent = time.time()
            value = _SENT.pack(sent) + _PADDING
            stamp = round((sent + self.clock_offset) * 1000)
            for name, count in self._topics.items():
                for partition in range(count):
                    for _ in range(self.factors.get(name, 1)):
                        producer.produce(name, value, partition=partition, timestamp=stamp)
            producer.poll(0)
        producer.flush(10)

    def _consume(self) -> None:
        settings = {"bootstrap.servers": self._destination, "group.id": "bench", "fetch.wait.max.ms": 20}
        consumer = Consumer(settings | _RECONNECT)
        consumer.assign([TopicPartition(f"copy.{name}", n, OFFSET_BEGINNING) for name, n in self._arrivals])
        while not self._stop.is_set():
            messages = consumer.consume(1000, 0.1)
            now = time.time()
            with self._lock:
                for message in messages:
                    topic, partition, value = message.topic(), message.partition(), message.value()
                    if message.error() is None and topic and partition is not None and value:
                        place = topic.removeprefix("copy."), partition
                        self._arrivals[place].note(_SENT.unpack_from(value)[0], now, self.limit)
        consumer.close()
