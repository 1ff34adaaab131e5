"""Elects a leader among the samplers of a cluster, with a consumer group on that cluster.

The samplers form a consumer group on the samples topic; the member with partition 0 leads. The election needs
only the measured cluster, and no records are consumed. During a rebalance, two samplers may lead briefly and
both measure; this only adds correct samples.

A sampler that has lost only its group coordinator keeps its partitions in kafka-python. Its leadership is
therefore a lease by its own clock: it ends one session timeout after sending the last request that the
coordinator answered.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any, Final

from kafka import KafkaConsumer, TopicPartition
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import KafkaError, KafkaTimeoutError

from mirror.loggers import get_logger
from mirror.protocol.control.sasl import TokenProvider
from mirror.settings import KafkaCluster
from mirror.tokens import token_from_file
from pmp.rounds import ThreadService

_log = get_logger(__name__)
_POLL_MS: Final = 200
_AGAIN_SECONDS: Final = 2.0
_SESSION_SECONDS: Final = 10.0
_HEARTBEAT_SECONDS: Final = 2.0
"""Seconds between heartbeats, and between renewals of the leadership."""


class GroupLeadership(ThreadService):
    """Takes part in the election of a cluster's leading sampler.

    `is_leader` is safe to call from any thread. `start` joins the group, whose topic must exist; `stop`
    leaves it, so that another sampler leads immediately. `monotonic`: clock in seconds.
    """

    def __init__(
        self, cluster: KafkaCluster, topic: str, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__("sampler-leadership")
        self._cluster = cluster
        self._topic = topic
        self._leads = threading.Event()
        self._monotonic = monotonic
        self._until = float("-inf")

    def is_leader(self) -> bool:
        """Return whether this sampler is the leader."""
        return self._leads.is_set() and self._monotonic() < self._until

    def _run(self) -> None:
        # kafka-python logs every connection attempt.
        logging.getLogger("kafka").setLevel(logging.CRITICAL)
        problem = ""
        while not self._stopping.is_set():
            try:
                self._take_part()
            except Exception as error:  # noqa: BLE001 - top of a service loop
                if not (isinstance(error, KafkaError) and error.retriable):
                    self.failure = error
                    _log.exception("cannot join the samplers' group", topic=self._topic)
                    return
                if str(error) != problem:
                    problem = str(error)
                    _log.warning("not in the samplers' group", topic=self._topic, problem=problem)
                self._stopping.wait(_AGAIN_SECONDS)
            finally:
                self._leads.clear()

    def _take_part(self) -> None:
        """Remain a member of the consumer group until the service stops. Raises KafkaError."""
        consumer = KafkaConsumer(
            **_settings(self._cluster),
            group_id=f"headrace-sampler-{self._topic}",
            partition_assignment_strategy=[RangePartitionAssignor],
            session_timeout_ms=int(_SESSION_SECONDS * 1_000),
            heartbeat_interval_ms=int(_HEARTBEAT_SECONDS * 1_000),
            enable_auto_commit=False,
        )
        with closing(consumer):
            consumer.subscribe([self._topic])
            while not self._stopping.is_set():
                consumer.poll(_POLL_MS)
                held = consumer.assignment()
                consumer.pause(*held)  # membership is enough; the records are not needed
                self._renew(consumer)
                self._lead(any(partition.partition == 0 for partition in held))

    def _renew(self, consumer: KafkaConsumer) -> None:
        """Extend the leadership if the coordinator responds. Raises KafkaTimeoutError after the leadership
        has ended, because the membership must then be renewed, too."""
        sent_at = self._monotonic()
        if self._leads.is_set() and sent_at >= self._until:
            raise KafkaTimeoutError(f"no contact with the group coordinator for {_SESSION_SECONDS:.0f} s")
        if self._until - sent_at > _SESSION_SECONDS - _HEARTBEAT_SECONDS:
            return
        try:
            consumer.committed(TopicPartition(self._topic, 0), timeout_ms=int(_HEARTBEAT_SECONDS * 1_000))
        except KafkaTimeoutError:
            return
        self._until = sent_at + _SESSION_SECONDS

    def _lead(self, leads: bool) -> None:
        if leads and not self._leads.is_set():
            self._leads.set()
            _log.info("sampler became leader", topic=self._topic)
        elif not leads:
            self._leads.clear()


def _settings(cluster: KafkaCluster) -> dict[str, Any]:
    """Convert a cluster's settings to the settings of kafka-python."""
    security = cluster.security
    given = {
        "ssl_cafile": security.ca_file,
        "ssl_certfile": security.certificate_file,
        "ssl_keyfile": security.key_file,
        "ssl_password": security.key_password.get_secret_value(),
        "sasl_mechanism": security.mechanism,
        "sasl_plain_username": security.username,
        "sasl_plain_password": security.password.get_secret_value(),
        "sasl_kerberos_service_name": security.kerberos_service,
        "sasl_oauth_token_provider": security.token_file
        and TokenProvider(token_from_file(security.token_file)),
    }
    return {
        "bootstrap_servers": cluster.bootstrap_servers.split(","),
        "client_id": "headrace-sampler",
        "security_protocol": security.protocol,
    } | {key: value for key, value in given.items() if value}
