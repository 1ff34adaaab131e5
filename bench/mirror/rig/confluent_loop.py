"""The usual mirror loop: consume a record, produce it. `python -m bench.mirror.rig.confluent_loop …`

Tuned for throughput or for latency; preserves partition, key, value, headers and timestamp. Stops at SIGTERM.
"""

from __future__ import annotations

import signal
import sys
import threading
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition

_AT_ONCE = 10_000


def main(source: str, destination: str, topic: str, target: str, codec: str, mode: str) -> None:
    """Copy until SIGTERM. `mode`: throughput or latency."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    quick = mode == "latency"
    failures: list[KafkaError] = []
    consumer, producer = Consumer(_reading(source, quick)), Producer(_writing(destination, codec, quick))
    partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
    start = consumer.get_watermark_offsets if quick else None
    consumer.assign(
        [
            TopicPartition(topic, n, start(TopicPartition(topic, n))[1] if start else OFFSET_BEGINNING)
            for n in partitions
        ]
    )

    def on_delivery(error: KafkaError | None, _message: Any) -> None:
        if error is not None:
            failures.append(error)

    while not stop.is_set() and not failures:
        messages = consumer.consume(500 if quick else _AT_ONCE, 0.002 if quick else 0.1)
        for message in messages:
            assert message.error() is None, message.error()
            _pass_on(producer, target, message, on_delivery)
        producer.poll(0)
    assert not failures, failures
    producer.flush(30)


def _pass_on(producer: Producer, target: str, message: Any, on_delivery: Any) -> None:
    while True:
        try:
            producer.produce(
                target,
                message.value(),
                message.key(),
                message.partition(),
                timestamp=message.timestamp()[1],
                headers=message.headers(),
                on_delivery=on_delivery,
            )
        except BufferError:
            producer.poll(0.05)
        else:
            return


def _reading(source: str, quick: bool) -> dict[str, Any]:
    return {
        "bootstrap.servers": source,
        "group.id": "bench-loop",
        "enable.auto.commit": False,
        "fetch.wait.max.ms": 10 if quick else 100,
        "fetch.error.backoff.ms": 0,
        "max.partition.fetch.bytes": 2**20,
        "queued.max.messages.kbytes": 256 * 1024,
        "check.crcs": True,
    }


def _writing(destination: str, codec: str, quick: bool) -> dict[str, Any]:
    return {
        "bootstrap.servers": destination,
        "acks": "all",
        "enable.idempotence": True,
        "compression.type": codec,
        "linger.ms": 1 if quick else 20,
        "batch.size": 1_000_000,
        "queue.buffering.max.messages": 500_000,
        "queue.buffering.max.kbytes": 512 * 1024,
        "delivery.report.only.error": True,
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
