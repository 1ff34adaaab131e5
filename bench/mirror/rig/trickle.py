"""Light traffic on many topics until SIGTERM: `python -m bench.mirror.rig.trickle BOOTSTRAP TOPICS RATE`."""

from __future__ import annotations

import signal
import sys
import threading

from confluent_kafka import Producer


def main(address: str, topics: int, rate: int) -> None:
    """Write one 1 KB record per second to each of `rate` partitions, evenly over the topics."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    producer = Producer({"bootstrap.servers": address, "acks": "all", "linger.ms": 0})
    number = 0
    while not stop.wait(1 / rate):
        place = number % rate
        producer.produce(f"bench-idle-{place % topics:02}", bytes(1_000), partition=place // topics)
        producer.poll(0)
        number += 1
    assert producer.flush(30) == 0


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
