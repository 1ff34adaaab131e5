"""Record writer for demonstrations, at given rates: `python -m stack.traffic BOOTSTRAP`.

Reads rates from stdin, one JSON object per line: `{"topic": {"0": bytes_per_second, …}, …}`; each line
replaces the previous one. Every record is different, so that an audit can tell them apart. Ends at end of
file or SIGTERM, after everything has been delivered, and prints the number of records written.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from random import Random
from typing import Final

from confluent_kafka import KafkaError, Producer

RECORD_BYTES: Final = 1_000
_TICK_SECONDS: Final = 0.05
_MOST_BEHIND_SECONDS: Final = 0.5


class Traffic:
    """Gives each partition a credit in bytes that grows with its rate, and spends it on records.

    `record_bytes`: record size by topic, from 100 to 5,000; default `RECORD_BYTES`.
    """

    def __init__(self, bootstrap: str, record_bytes: Mapping[str, int] | None = None) -> None:
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True, "linger.ms": 5}
        )
        self._record_bytes = record_bytes or {}
        self._filler = Random(1).randbytes(RECORD_BYTES * 4).hex()  # noqa: S311 - filler, not a secret
        self._rates: Mapping[tuple[str, int], float] = {}
        self._credits: dict[tuple[str, int], float] = {}
        self._failures: list[KafkaError] = []
        self._stopping = threading.Event()
        self.written = 0

    def set_rates(self, line: str) -> None:
        """Apply a line from stdin, which contains new rates."""
        self._rates = {
            (topic, int(number)): float(rate)
            for topic, partitions in json.loads(line).items()
            for number, rate in partitions.items()
        }

    def stop(self) -> None:
        """Make `run` end soon."""
        self._stopping.set()

    def run(self) -> None:
        """Write records until `stop` is called.

        Raises RuntimeError if the cluster rejected a record or records were not delivered.
        """
        last = time.monotonic()
        while not self._stopping.wait(_TICK_SECONDS):
            now = time.monotonic()
            elapsed, last = min(now - last, _MOST_BEHIND_SECONDS), now
            for key, rate in self._rates.items():
                self._spend(key, self._credits.get(key, 0.0) + rate * elapsed)
            self._producer.poll(0)
        if self._producer.flush(30):
            raise RuntimeError("some records were not delivered within 30 s")
        if self._failures:
            raise RuntimeError(f"{len(self._failures)} records were rejected: {self._failures[0]}")

    def _spend(self, key: tuple[str, int], credit: float) -> None:
        topic, partition = key
        size = self._record_bytes.get(topic, RECORD_BYTES)
        while credit >= size:
            identity = f"{topic}-{partition}-{self.written}"
            start = self.written % RECORD_BYTES
            value = (identity + self._filler[start : start + size - len(identity)]).encode()
            self._producer.produce(topic, value, identity.encode(), partition, on_delivery=self._delivered)
            self.written += 1
            credit -= size
        self._credits[key] = credit

    def _delivered(self, error: KafkaError | None, _message: object) -> None:
        if error is not None:
            self._failures.append(error)
