"""Measures for demonstrations how long each partition has received no record."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Final

from confluent_kafka import OFFSET_END, Consumer, TopicPartition

_WAIT_SECONDS: Final = 0.1


class Arrivals:
    """Reads topics in a thread between `start` and `stop`, and records when records arrive."""

    def __init__(self, bootstrap: str, topics: Mapping[str, int]) -> None:
        self._topics = topics
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "arrivals",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 50,
            }
        )
        self._lock = threading.Lock()
        self._last: dict[tuple[str, int], float] = {}
        self._longest: dict[tuple[str, int], float] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="arrivals")

    def start(self) -> None:
        """Start reading at the current end offsets."""
        self._consumer.assign(
            [
                TopicPartition(topic, number, OFFSET_END)
                for topic, count in self._topics.items()
                for number in range(count)
            ]
        )
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread. Safe to call twice."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join()

    def mark(self) -> float:
        """Start a new measurement; returns its start (monotonic seconds)."""
        now = time.monotonic()
        with self._lock:
            self._longest.clear()
            self._last = dict.fromkeys(self._last, now)
        return now

    def last_arrival(self, partition: tuple[str, int]) -> float:
        """Return when a record last arrived (monotonic seconds); 0 if none has."""
        with self._lock:
            return self._last.get(partition, 0.0)

    def longest_silence(self, partitions: Sequence[tuple[str, int]]) -> Mapping[tuple[str, int], float]:
        """Return the longest pause of each partition since the last call of `mark`, in seconds, including the
        current pause."""
        now = time.monotonic()
        with self._lock:
            return {
                key: max(self._longest.get(key, 0.0), now - self._last.get(key, now)) for key in partitions
            }

    def _run(self) -> None:
        while not self._stopping.is_set():
            messages = self._consumer.consume(1_000, _WAIT_SECONDS)
            now = time.monotonic()
            with self._lock:
                for message in messages:
                    topic, number = message.topic(), message.partition()
                    if message.error() is None and topic is not None and number is not None:
                        key = (topic, number)
                        self._longest[key] = max(self._longest.get(key, 0.0), now - self._last.get(key, now))
                        self._last[key] = now
        self._consumer.close()
