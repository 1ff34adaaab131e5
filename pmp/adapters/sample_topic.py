"""Writes samples like Cruise Control: without key, with the sample's time as timestamp, and gzip."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from librdkafka.errors import translate
from librdkafka.settings import producer_settings
from mirror.adapters.kafka_admin import KafkaAdmin
from mirror.errors import Unreachable
from mirror.model.topics import TopicDescription
from mirror.settings import KafkaCluster
from mirror.wording import counted
from pmp.samples.sample import Sample, encode

_FLUSH_SECONDS: Final = 15.0
_HOUR_MS: Final = "3600000"


class SampleTopic:
    """Implements `pmp.ports.SampleSink`. Creates the topic at the first write; used by one thread."""

    def __init__(self, cluster: KafkaCluster, topic: str, partitions: int) -> None:
        self._cluster = cluster
        self._description = TopicDescription(
            topic, partitions, settings={"retention.ms": _HOUR_MS, "cleanup.policy": "delete"}
        )
        self._producer: Producer | None = None
        self._error: KafkaError | None = None

    def create(self) -> None:
        """Create the topic unless it exists. Raises Unreachable, Refused."""
        KafkaAdmin(self._cluster).create(self._description)

    def write(self, samples: Sequence[Sample]) -> None:
        """Write samples as version 1 and wait for the acknowledgements. Raises Unreachable, Refused."""
        producer = self._connected()
        self._error = None
        for sample in samples:
            self._produce(producer, encode(sample), sample.time_ms)
        left = producer.flush(_FLUSH_SECONDS)
        if self._error is not None:
            raise translate(self._error, f"writing to {self._description.name}")
        if left:
            raise Unreachable(
                f"{counted(left, 'sample was', 'samples were')} not acknowledged "
                f"by {self._cluster.bootstrap_servers}"
            )

    def close(self) -> None:
        """Close the connection; unacknowledged samples are lost."""
        self._producer = None

    def _connected(self) -> Producer:
        if self._producer is None:
            self.create()
            self._producer = Producer(
                producer_settings(self._cluster, "headrace-sampler")
                | {"compression.type": "gzip", "linger.ms": 50, "message.timeout.ms": 10_000}
            )
        return self._producer

    def _produce(self, producer: Producer, value: bytes, time_ms: int) -> None:
        while True:
            try:
                producer.produce(
                    self._description.name, value=value, timestamp=time_ms, on_delivery=self._delivered
                )
            except BufferError:
                producer.poll(0.1)
            except KafkaException as error:
                raise translate(error, f"writing to {self._description.name}") from error
            else:
                return

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self._error = error
