"""Writers of numbered records to every partition of a topic, which survive failures of its broker."""

from __future__ import annotations

import math
import random
import threading
import time
from collections.abc import Callable, Hashable
from functools import partial
from typing import Final

from confluent_kafka import TIMESTAMP_CREATE_TIME, KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient

from mirror.adapters.kafka_admin import KafkaAdmin
from mirror.adapters.settings import KafkaCluster
from mirror.errors import HeadraceError
from mirror.model.topics import TopicDescription
from tests.chaos.service.reader import Contents, content_of, read_topic
from tests.chaos.service.tenants import Style

_STEP_SECONDS: Final = 0.1
_CALL_SECONDS: Final = 10.0
_SHARE_ABORTED: Final = 0.3
_LINGER: Final = "linger.ms"
BACKDATED_SECONDS: Final = 5.0
"""Maximum age of a record when it is written."""


class Writer:
    """Writer of one topic, with a thread.

    Every record has a unique number in its header, so that all records of the topic differ. `lives` keeps the
    contents of deleted topics of that name.
    """

    def __init__(
        self, address: str, topic: str, partitions: int, style: Style, rate: float, deaf_seconds: float = 30.0
    ) -> None:
        """Create the writer. `rate`: records per second and partition.

        `deaf_seconds`: time after which a producer without a response is replaced, if the broker responds to
        others.
        """
        self.topic, self.partitions, self._style = topic, partitions, style
        self.lives: list[Contents] = []
        self.acknowledged: Contents = {}
        """Every acknowledged record by partition."""
        self.failure: BaseException | None = None
        self._address, self._rate, self._deaf_seconds = address, rate, deaf_seconds
        self._admin = KafkaAdmin(KafkaCluster(bootstrap_servers=address))
        self._numbers = random.Random(topic)
        self._written = 0
        self._is_ending, self._is_given_up = threading.Event(), threading.Event()
        self._changes: list[tuple[Callable[[], None], threading.Event]] = []
        self._producer = self._new_producer()
        self._thread = threading.Thread(target=self._guarded, name=f"writer of {topic}")

    def start(self) -> None:
        """Create the topic and write until the end."""
        self._patiently(lambda: self._admin.create(TopicDescription(self.topic, self.partitions)))
        self._thread.start()

    def finish(self, patience: float) -> bool:
        """Wait until all records are acknowledged; return whether that took at most `patience` seconds.

        Raises the exception that ended the thread.
        """
        self._is_ending.set()
        self._thread.join(patience)
        if self.failure is not None:
            raise self.failure
        return not self._thread.is_alive()

    def give_up(self) -> None:
        """Stop at once."""
        self._is_given_up.set()
        self._is_ending.set()
        if self._thread.is_alive():
            self._thread.join()

    def grow(self) -> None:
        """Add a partition; return when it has been written to."""
        self._do(self._add_partition)

    def re_create(self, pause: threading.Event, seconds: float) -> None:
        """Delete the topic, wait, and create it again; return when the new one has been written to."""
        self._do(lambda: self._begin_life(pause, seconds))

    def _do(self, change: Callable[[], None]) -> None:
        """Let the thread make a change between two records."""
        done = threading.Event()
        self._changes.append((change, done))
        while not done.wait(0.1):
            if not self._thread.is_alive():
                return

    def _guarded(self) -> None:
        try:
            while not self._is_ending.wait(_STEP_SECONDS):
                self._write_some()
                while self._changes:
                    change, done = self._changes.pop(0)
                    change()
                    done.set()
            self._flush()
        except RunEnded:
            return
        except BaseException as error:  # noqa: BLE001 - the run that owns the thread raises it
            self.failure = error

    def _write_some(self) -> None:
        if not self._style.is_transactional:
            self._produce(_STEP_SECONDS)
            return
        self._transact(self._numbers.uniform(0.1, 0.6), self._numbers.random() < _SHARE_ABORTED)

    def _produce(self, seconds: float) -> None:
        for _ in range(max(1, round(self._rate * seconds))):
            for partition in range(self.partitions):
                self._produce_one(partition)
        self._producer.poll(0)

    def _produce_one(self, partition: int) -> None:
        number = self._written
        self._written += 1
        numbers = self._numbers
        key = numbers.choice([None, b"", b"key-%d" % (number % 50)])
        value = numbers.choice([None, b"", numbers.randbytes(numbers.randint(1, 300)), b"text " * 40])
        headers: list[tuple[str, bytes | None]] = [("number", b"%d" % number)]
        headers += [("flag", None), ("flag", b"1")] if number % 5 == 0 else []
        stamp = int(time.time() * 1000) - numbers.randint(0, round(BACKDATED_SECONDS * 1000))
        noted = partial(
            self._note, partition, content_of((TIMESTAMP_CREATE_TIME, stamp), key, value, headers)
        )
        while not self._is_given_up.is_set():
            try:
                self._producer.produce(
                    self.topic, value, key, partition, noted, timestamp=stamp, headers=list(headers)
                )
            except BufferError:
                self._producer.poll(0.2)
            except KafkaException as error:
                if error.args[0].code() != KafkaError._FATAL:
                    raise
                self._producer = self._new_producer()  # the broker has lost acknowledged records
            else:
                return

    def _note(self, partition: int, record: Hashable, error: KafkaError | None, _: Message) -> None:
        if error is None:
            self.acknowledged.setdefault(partition, []).append(record)

    def _transact(self, seconds: float, is_aborted: bool) -> None:
        """Write one transaction; if it cannot be ended, the next producer ends it."""
        try:
            self._producer.begin_transaction()
            self._produce(seconds)
            self._is_ending.wait(seconds)
            if is_aborted:
                self._producer.flush(_CALL_SECONDS)
                self._again(self._producer.abort_transaction)
            else:
                self._again(self._producer.commit_transaction)
        except KafkaException as error:
            if error.args[0].txn_requires_abort():
                self._abort()
            else:
                self._producer = self._new_producer()
        except BrokerUnreachable:
            self._producer = self._new_producer()

    def _abort(self) -> None:
        try:
            self._again(self._producer.abort_transaction)
        except (KafkaException, BrokerUnreachable):
            self._producer = self._new_producer()

    def _again(self, call: Callable[[float], object]) -> None:
        """Retry until the broker responds. Raises Deaf if it responds only to others."""
        deadline = time.monotonic() + self._deaf_seconds
        while True:
            self._require_going()
            try:
                call(min(_CALL_SECONDS, self._deaf_seconds))
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise
                if not self._is_answered():
                    deadline = time.monotonic() + self._deaf_seconds
                elif time.monotonic() > deadline:
                    raise BrokerUnreachable from error
            else:
                return

    def _new_producer(self) -> Producer:
        settings: dict[str, object] = {
            "bootstrap.servers": self._address,
            "enable.idempotence": True,
            "message.timeout.ms": 3_600_000,
            "topic.metadata.refresh.interval.ms": 1_000,
            "reconnect.backoff.max.ms": 1_000,
            _LINGER: 20,
            "compression.type": self._style.codec,
            "log_level": 0,
        }
        if not self._style.is_transactional:
            return Producer(settings)
        settings |= {"transactional.id": self.topic, "message.timeout.ms": 50_000}
        while True:
            producer = Producer(settings)
            try:
                self._again(producer.init_transactions)
            except BrokerUnreachable:
                continue
            return producer

    def _flush(self) -> None:
        """Flush; replace a producer that sends nothing although its broker responds."""
        left, deadline = len(self._producer), time.monotonic() + self._deaf_seconds
        while now_left := self._producer.flush(1.0):
            self._require_going()
            if now_left < left or not self._is_answered():
                left, deadline = now_left, time.monotonic() + self._deaf_seconds
            elif time.monotonic() > deadline:
                self._replace_producer()

    def _is_answered(self) -> bool:
        try:
            return self.topic in self._admin.list_topics()
        except HeadraceError as error:
            if not error.retriable:
                raise
            return False

    def _add_partition(self) -> None:
        wanted = self.partitions + 1
        self._patiently(lambda: self._grow(wanted))
        self.partitions = wanted
        self._meet_partitions()

    def _grow(self, wanted: int) -> None:
        error = self._admin.grow_each({self.topic: wanted})[self.topic].error
        if error is not None:
            raise error

    def _meet_partitions(self) -> None:
        """Wait until the producer knows every partition.

        A producer that was connected during a restart of its broker may never receive metadata of a topic,
        although the broker responds to others. It is replaced, and its unsent records are not part of the
        topic.
        """
        self._wait_for(lambda: self._admin.list_topics().get(self.topic) == self.partitions)
        while not self._wait_for(lambda: self._size() == self.partitions, self._deaf_seconds):
            self._replace_producer()

    def _replace_producer(self) -> None:
        self._producer.purge()
        self._producer = self._new_producer()

    def _begin_life(self, pause: threading.Event, seconds: float) -> None:
        self._flush()
        self.lives.append(read_topic(self._address, self.topic, self.partitions, self._is_given_up))
        del self._producer  # a producer that does not know of the deletion would create the topic again
        self._patiently(self._delete)
        self._wait_for(lambda: self._admin.list_topics().get(self.topic) is None)
        pause.wait(seconds)
        self._patiently(lambda: self._admin.create(TopicDescription(self.topic, self.partitions)))
        self._producer = self._new_producer()
        self._meet_partitions()

    def _delete(self) -> None:
        client = AdminClient({"bootstrap.servers": self._address, "log_level": 0})
        try:
            client.delete_topics([self.topic], request_timeout=_CALL_SECONDS)[self.topic].result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:  # deleted by an earlier attempt
                raise

    def _size(self) -> int:
        """Return the number of partitions that the producer knows."""
        patience = min(_CALL_SECONDS, self._deaf_seconds)
        topic = self._producer.list_topics(self.topic, timeout=patience).topics[self.topic]
        return len(topic.partitions) if topic.error is None else 0

    def _patiently(self, act: Callable[[], object]) -> None:
        def done() -> bool:
            act()
            return True

        self._wait_for(done)

    def _wait_for(self, condition: Callable[[], bool], patience: float = math.inf) -> bool:
        """Wait for the condition, retrying while the broker is down; return whether it held in time."""
        deadline = time.monotonic() + patience
        while True:
            try:
                if condition():
                    return True
            except HeadraceError as error:
                if not error.retriable:
                    raise
            except KafkaException as error:
                if not (error.args[0].retriable() or error.args[0].code() < 0):
                    raise
            self._require_going()
            if time.monotonic() > deadline:
                return False
            self._is_given_up.wait(0.3)

    def _require_going(self) -> None:
        if self._is_given_up.is_set():
            raise RunEnded


class BrokerUnreachable(Exception):
    """A producer gets no response from a broker that responds to others."""


class RunEnded(Exception):
    """The run ends early."""
