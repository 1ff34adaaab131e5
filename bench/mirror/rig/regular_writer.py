"""Regular batches in every partition until SIGTERM: `… regular_writer BOOTSTRAP TOPIC PARTITIONS PAUSE`."""

from __future__ import annotations

import signal
import sys
import threading
import time

from confluent_kafka import Producer

RECORDS = 50
VALUE_BYTES = 200


def main(address: str, topic: str, partitions: int, pause: float) -> None:
    """Write a batch to each partition at once, and then every `pause` seconds, spread evenly."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    producer = Producer({"bootstrap.servers": address, "acks": "all", "linger.ms": 20})
    number, began = 0, time.monotonic()
    while number < partitions or not stop.wait(
        max(0.0, began + (number - partitions + 1) * pause / partitions - time.monotonic())
    ):
        for _ in range(RECORDS):
            producer.produce(topic, bytes(VALUE_BYTES), partition=number % partitions)
        producer.poll(0)
        number += 1
    assert producer.flush(30) == 0


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
