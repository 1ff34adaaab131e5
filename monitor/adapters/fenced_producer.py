"""Producer for a topic with a single writer.

Initializing the transactional id fences earlier writers: if a writer was frozen while another took over, the
broker rejects its writes, and aborts its open transaction.
https://cwiki.apache.org/confluence/display/KAFKA/KIP-98+-+Exactly+Once+Delivery+and+Transactional+Messaging
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Producer

from librdkafka.errors import translate
from librdkafka.settings import producer_settings
from mirror.errors import Fenced, HeadraceError, Unreachable
from mirror.settings import KafkaCluster

_PATIENCE_SECONDS: Final = 15.0
_TIMES: Final = {"message.timeout.ms": 10_000, "transaction.timeout.ms": 30_000}


class FencedProducer:
    """Transactional producer. Not thread-safe. `identity`: its transactional id."""

    def __init__(self, cluster: KafkaCluster, client_id: str, identity: str) -> None:
        self._settings = producer_settings(cluster, client_id) | _TIMES | {"transactional.id": identity}
        self._identity = identity
        self._producer: Producer | None = None
        self._unfinished: Callable[[float], None] | None = None
        """Pending commit or abort of a transaction; None if there is none."""

    def take(self) -> None:
        """Fence the present owner of the transactional id. Done only once, because a second call could fence
        a successor. Raises Unreachable, Refused."""
        if self._producer is not None:
            return
        producer = Producer(self._settings)
        try:
            producer.init_transactions(_PATIENCE_SECONDS)
        except KafkaException as error:
            found = translate(error, f"initializing transactional id {self._identity}")
            if isinstance(found, Fenced):
                raise Unreachable(f"{found.message}: concurrent initialization by another writer") from error
            raise found from error
        self._producer = producer

    def reclaim(self) -> None:
        """Take the transactional id again with the next write. Only for the rightful writer, after the broker
        has ended a transaction that took too long, which fences like another writer."""
        self._producer = self._unfinished = None

    def write(self, topic: str, values: Mapping[str, bytes | None]) -> None:
        """Write the values in one transaction and wait for its commit. Raises Fenced if another writer has
        taken over the transactional id, Unreachable, Refused."""
        self.take()
        assert self._producer is not None
        producer = self._producer
        try:
            self._finish()
            producer.begin_transaction()
            self._unfinished = producer.abort_transaction
            for key, value in values.items():
                producer.produce(topic, key=key.encode(), value=value)
            self._unfinished = producer.commit_transaction
            self._finish()
        except BufferError as error:
            raise Unreachable(f"writing to {topic}: {error}") from error
        except KafkaException as error:
            raise self._failure(producer, error, f"writing to {topic}") from error

    def _finish(self) -> None:
        if self._unfinished is not None:
            self._unfinished(_PATIENCE_SECONDS)
            self._unfinished = None

    def _failure(self, producer: Producer, error: KafkaException, operation: str) -> HeadraceError:
        found, reason = translate(error, operation), error.args[0]
        assert isinstance(reason, KafkaError)
        if isinstance(found, Fenced):
            return found
        if reason.fatal():  # for example a deleted topic: not fenced, but this client is unusable
            self._producer = self._unfinished = None
        elif reason.txn_requires_abort():
            self._unfinished = producer.abort_transaction
        return found
