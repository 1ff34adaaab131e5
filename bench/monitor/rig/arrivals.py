"""Reader of a destination topic that records the latency of each record."""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import Final, Self
from uuid import uuid4

from confluent_kafka import Consumer, TopicPartition

_KEPT: Final = 200_000


class Arrivals:
    """Latencies of arrived records, computed from the producer's timestamps."""

    def __init__(self, address: str, topic: str, partitions: int) -> None:
        self._consumer = Consumer(
            {"bootstrap.servers": address, "group.id": uuid4().hex, "enable.auto.commit": False}
        )
        self._consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        self._seen: deque[tuple[float, float]] = deque(maxlen=_KEPT)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="arrivals")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        self._consumer.close()

    def p99_ms(self, seconds: float) -> float:
        """Return p99 of the records of the last `seconds`, or 0 if none arrived."""
        since = time.time() - seconds
        late = sorted(late for at, late in list(self._seen) if at >= since)
        return late[min(len(late) - 1, round(len(late) * 0.99))] if late else 0.0

    def _run(self) -> None:
        while not self._stopping.is_set():
            for message in self._consumer.consume(500, 0.1):
                now = time.time()
                if not message.error():
                    _, stamp = message.timestamp()
                    self._seen.append((now, now * 1000 - stamp))
