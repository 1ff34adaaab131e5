"""Writes samples in the same way as Cruise Control: without key, with the sample's time as timestamp, and
gzip."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from mirror.adapters.kafka.topic_client import TopicClient, create_missing
from mirror.errors import TopicMissing
from mirror.model.topics import TopicDescription
from mirror.protocol.batches.compression import Codec
from mirror.protocol.batches.records import Record
from mirror.settings import KafkaCluster
from pmp.samples.sample import Sample, encode

_HOUR_MS: Final = "3600000"


class SampleTopic:
    """Writes samples to their topic, and creates the topic if it is missing. Implements
    `pmp.ports.SampleSink`."""

    def __init__(self, cluster: KafkaCluster, topic: str, partitions: int) -> None:
        self._description = TopicDescription(
            topic, partitions, settings={"retention.ms": _HOUR_MS, "cleanup.policy": "delete"}
        )
        self._client = TopicClient(cluster, topic, "headrace-sampler")

    def create(self) -> None:
        """Create the topic of samples unless it exists. Raises Unreachable, NotAuthorized, Refused."""
        self._client.ask("cannot create", partial(create_missing, wanted=self._description))

    def write(self, samples: Sequence[Sample]) -> None:
        """Write samples in format version 1 and wait for the acknowledgements. Raises the errors of
        `TopicClient.append`."""
        records = [Record(0, sample.time_ms, None, encode(sample)) for sample in samples]
        try:
            self._client.append(records, Codec.GZIP)
        except TopicMissing:
            self.create()
            self._client.append(records, Codec.GZIP)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()
