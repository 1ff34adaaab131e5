"""Which of several samplers of a cluster measures: the one that the cluster's own group protocol picks.

The samplers form a consumer group on the samples topic; the one that has its partition 0 leads. This
needs nothing but the cluster that is measured anyway. Nothing is consumed. While the group changes
hands two samplers may both measure once: that gives two samples close together, not a wrong one.
"""

from __future__ import annotations

import threading
from typing import Final

import structlog
from confluent_kafka import Consumer, KafkaException, TopicPartition

from librdkafka.settings import consumer_settings
from mirror.settings import KafkaCluster

_log = structlog.get_logger(__name__)
_POLL_SECONDS: Final = 0.2


class GroupLeadership:
    """`is_leader` may be asked from any thread. `start` joins the group, `stop` leaves it."""

    def __init__(self, cluster: KafkaCluster, topic: str) -> None:
        self._cluster = cluster
        self._topic = topic
        self._stopped = threading.Event()
        self._leads = threading.Event()
        self._thread: threading.Thread | None = None
        self.failure: Exception | None = None

    def is_leader(self) -> bool:
        """Whether this one measures now."""
        return self._leads.is_set()

    def start(self) -> None:
        """Join in the background; the topic must be there."""
        self._thread = threading.Thread(target=self._run, name="sampler-leadership")
        self._thread.start()

    def stop(self, deadline_seconds: float) -> None:
        """Leave, so that another one leads at once. Safe to call twice."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(deadline_seconds)

    def is_running(self) -> bool:
        """Whether its thread lives; `failure` says why it does not."""
        return self._thread is not None and self._thread.is_alive()

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
            while not self._stopped.is_set():
                consumer.poll(_POLL_SECONDS)
        except KafkaException as error:
            self.failure = error
            _log.exception("the sampler's group cannot be joined", topic=self._topic)
        finally:
            self._leads.clear()
            consumer.close()

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        consumer.assign([])  # a place in the group is all that is wanted, not its records
        if any(partition.partition == 0 for partition in partitions):
            self._leads.set()
            _log.info("this sampler measures", topic=self._topic)

    def _revoked(self, _: Consumer, __: list[TopicPartition]) -> None:
        self._leads.clear()
