"""Numbered records at the source, with the offset of each."""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from confluent_kafka import Producer

PARTITIONS: Final = 2
ABORTED: Final = b"aborted"
"""Value of records of aborted transactions."""
_TICK_SECONDS: Final = 0.02
_ABORT_SECONDS: Final = 0.5
_PATIENCE_SECONDS: Final = 120.0


class Traffic:
    """Writer of the numbers 0, 1, ... to each partition. Aborted transactions lie between them, so that the
    offsets of both clusters differ more and more. `digits`: smallest size of a value in bytes."""

    def __init__(self, address: str, topic: str, partitions: int = PARTITIONS, digits: int = 1) -> None:
        self._topic = topic
        self._digits = digits
        self._offsets: list[list[int]] = [[] for _ in range(partitions)]
        self._sent = 0
        self._producer = Producer(
            {
                "bootstrap.servers": address,
                "log_level": 0,
                "enable.idempotence": True,
                "linger.ms": 5,
                "batch.num.messages": 200,  # a share group gets whole batches
                "queue.buffering.max.messages": 2_000_000,
            }
        )
        self._aborting = Producer({"bootstrap.servers": address, "log_level": 0, "transactional.id": topic})
        self._aborting.init_transactions(_PATIENCE_SECONDS)

    @property
    def records(self) -> int:
        """Number of acknowledged records."""
        return sum(map(len, self._offsets))

    @property
    def ends(self) -> list[int]:
        """Offset after the last acknowledged record of each partition."""
        return [found[-1] + 1 if found else 0 for found in self._offsets]

    def offset(self, partition: int, behind: int) -> int:
        """Return the offset that is `behind` records before the end of a partition."""
        found = self._offsets[partition]
        return found[max(len(found) - behind, 0)]

    def number(self, partition: int, offset: int) -> int:
        """Return the number of the first record at or after an offset of the source."""
        return bisect_left(self._offsets[partition], offset)

    def write(self, records: int) -> None:
        """Write records evenly to the partitions, and wait for their acknowledgements."""
        for _ in range(records // len(self._offsets)):
            self._write_round()
        if self._producer.flush(_PATIENCE_SECONDS):
            raise TimeoutError(f"{self._topic}: the source does not acknowledge the records")

    def abort(self) -> None:
        """Write a record of an aborted transaction to each partition."""
        self._aborting.begin_transaction()
        for partition in range(len(self._offsets)):
            self._aborting.produce(self._topic, ABORTED, partition=partition)
        self._aborting.flush(_PATIENCE_SECONDS)
        self._aborting.abort_transaction(_PATIENCE_SECONDS)

    @contextmanager
    def running(self, records_per_second: float) -> Iterator[None]:
        """Write at a steady rate within the context."""
        stopping = threading.Event()
        thread = threading.Thread(target=self._run, args=(records_per_second, stopping), name="traffic")
        thread.start()
        try:
            yield
        finally:
            stopping.set()
            thread.join()
            self._producer.flush(_PATIENCE_SECONDS)

    def _run(self, records_per_second: float, stopping: threading.Event) -> None:
        began, rounds, next_abort = time.monotonic(), 0, 0.0
        while not stopping.wait(_TICK_SECONDS):
            elapsed = time.monotonic() - began
            while rounds * len(self._offsets) < elapsed * records_per_second:
                self._write_round()
                rounds += 1
            self._producer.poll(0)
            if elapsed >= next_abort:
                next_abort = elapsed + _ABORT_SECONDS
                self.abort()

    def _write_round(self) -> None:
        value = f"{self._sent:0{self._digits}d}".encode()
        for partition in range(len(self._offsets)):
            self._producer.produce(self._topic, value, partition=partition, on_delivery=self._delivered)
        self._sent += 1
        if self._sent % 1000 == 0:
            self._producer.poll(0)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            raise RuntimeError(f"{self._topic}: {error}")
        self._offsets[message.partition()].append(message.offset())
