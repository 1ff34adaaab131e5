"""Leader election among the samplers of a cluster, with a consumer group of that cluster.

The samplers form a consumer group on the samples topic; the member with partition 0 leads. The election needs
only the measured cluster, and no records are consumed. During a rebalance, two samplers may lead briefly and
both measure; this only adds correct samples.
"""

from __future__ import annotations

import threading
from typing import Final

import structlog
from confluent_kafka import Consumer, KafkaException, TopicPartition

from librdkafka.settings import consumer_settings
from mirror.settings import KafkaCluster
from pmp.rounds import ThreadService

_log = structlog.get_logger(__name__)
_POLL_SECONDS: Final = 0.2


class GroupLeadership(ThreadService):
    """Takes part in the election.

    `is_leader` is safe to call from any thread. `start` joins the group, whose topic must exist; `stop`
    leaves it, so that another sampler leads immediately.
    """

    def __init__(self, cluster: KafkaCluster, topic: str) -> None:
        super().__init__("sampler-leadership")
        self._cluster = cluster
        self._topic = topic
        self._leads = threading.Event()

    def is_leader(self) -> bool:
        """Return whether this sampler is the leader."""
        return self._leads.is_set()

    def _run(self) -> None:
        group = f"headrace-sampler-{self._topic}"
        settings = consumer_settings(self._cluster, "headrace-sampler", group) | {
            "session.timeout.ms": 10_000,
            "heartbeat.interval.ms": 2_000,
            "auto.offset.reset": "latest",
        }
        consumer = Consumer(settings)
        try:
            consumer.subscribe([self._topic], on_assign=self._assigned, on_revoke=self._revoked)
            while not self._stopping.is_set():
                consumer.poll(_POLL_SECONDS)
        except KafkaException as error:
            self.failure = error
            _log.exception("cannot join the samplers' group", topic=self._topic)
        finally:
            self._leads.clear()
            consumer.close()

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        consumer.assign([])  # membership is enough; the records are not needed
        if any(partition.partition == 0 for partition in partitions):
            self._leads.set()
            _log.info("sampler became leader", topic=self._topic)

    def _revoked(self, _: Consumer, __: list[TopicPartition]) -> None:
        self._leads.clear()
