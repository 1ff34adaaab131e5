"""Writer and reader that time single records: `python -m bench.mirror.rig.probe write …` or `read …`.

The writer puts the time of the produce call into the record; the reader computes the age of each record. Both
use the machine's monotonic clock. The reader prints one JSON object at SIGTERM.
"""

from __future__ import annotations

import json
import random
import signal
import sys
import threading
import time

from confluent_kafka import OFFSET_END, Consumer, KafkaError, Producer, TopicPartition

_MOMENT_BYTES = 8
_SHARES = (0.5, 0.9, 0.99, 0.999)


def write(address: str, topic: str, partitions: int, per_second: int, size: int) -> None:
    """Write records at a steady rate until SIGTERM, with acks=all."""
    stop = _until_stopped()
    failures: list[KafkaError] = []
    producer = Producer(
        {
            "bootstrap.servers": address,
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": 1,
            "compression.type": "lz4",
        }
    )
    filler = random.Random(1).randbytes(size // 4).hex().encode() * 2
    begin, number = time.monotonic(), 0
    while not stop.is_set():
        due = begin + number / per_second
        now = time.monotonic()
        if now < due:
            time.sleep(due - now)
        value = time.monotonic_ns().to_bytes(_MOMENT_BYTES, "big") + filler[: size - _MOMENT_BYTES]
        producer.produce(
            topic,
            value,
            b"%d" % number,
            number % partitions,
            on_delivery=lambda error, _: failures.append(error) if error else None,
        )
        producer.poll(0)
        number += 1
    assert producer.flush(30) == 0
    assert not failures, failures


def read(address: str, topic: str, partitions: int) -> None:
    """Read from the current end until SIGTERM; print {"records": …, "50": ms, "90": …, "max": …}."""
    stop = _until_stopped()
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "bench-probe",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 100,
            "fetch.error.backoff.ms": 0,
        }
    )
    consumer.assign([TopicPartition(topic, number, OFFSET_END) for number in range(partitions)])
    waits: list[float] = []
    while not stop.is_set():
        message = consumer.poll(0.1)
        if message is None:
            continue
        now = time.monotonic_ns()
        assert message.error() is None, message.error()
        value = message.value()
        assert value is not None
        waits.append((now - int.from_bytes(value[:_MOMENT_BYTES], "big")) / 1e6)
    waits.sort()
    found: dict[str, float] = {f"{share * 100:g}": waits[int(share * len(waits))] for share in _SHARES}
    sys.stdout.write(json.dumps({"records": len(waits), **found, "max": waits[-1]}) + "\n")


def _until_stopped() -> threading.Event:
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    return stop


if __name__ == "__main__":
    what, where, name, *numbers = sys.argv[1:]
    (write if what == "write" else read)(where, name, *map(int, numbers))
