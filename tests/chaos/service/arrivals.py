"""Arrivals at the destination during a run: their delays, and the times without any."""

from __future__ import annotations

import bisect
import itertools
import threading
import time
from array import array
from collections.abc import Hashable
from typing import Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition

from tests.chaos.service.reader import content, new_consumer

_CALL_SECONDS: Final = 5.0
_LOOK_SECONDS: Final = 1.0
_GRAIN_SECONDS: Final = 0.05

Place = tuple[str, int]
"""Destination topic and partition."""


class Arrivals:
    """Reader of destination topics as they are created and grow. Times come from the monotonic clock."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._topics: frozenset[str] = frozenset()
        self._stop = threading.Event()
        self._times: dict[Place, array[float]] = {}
        self._ages: dict[Place, array[float]] = {}
        """Age in seconds of the oldest record that arrived at each of the times."""
        self._contents: dict[Place, set[Hashable]] = {}
        self._thread = threading.Thread(target=self._read, name="arrivals")
        self.failure: BaseException | None = None

    def start(self) -> None:
        """Start reading."""
        self._thread.start()

    def watch(self, topics: frozenset[str]) -> None:
        """Read these topics, and drop the data of others."""
        self._topics = topics
        for place in [place for place in self._contents if place[0] not in topics]:
            del self._contents[place], self._times[place], self._ages[place]

    def stop(self) -> None:
        """Stop reading."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def newest(self, place: Place) -> float:
        """Return the time of the latest arrival in the partition; -1 if none."""
        times = self._times.get(place)
        return times[-1] if times else -1.0

    def seen(self, place: Place) -> set[Hashable]:
        """Return every record of the partition so far."""
        return self._contents.get(place, set())

    def longest_silence(self, since: float, until: float, but: frozenset[Place]) -> tuple[float, str]:
        """Return the longest time without an arrival that overlaps the span, and its partition.

        `but`: excluded partitions.
        """
        found = (
            (_silence(times, since, until), f"{place[0]}-{place[1]}")
            for place, times in list(self._times.items())
            if place not in but
        )
        return max(found, default=(0.0, ""))

    def longest_silence_of(self, place: Place, since: float, until: float) -> float:
        """Return the longest time without an arrival on one partition that overlaps the span."""
        return _silence(self._times.get(place, array("d")), since, until)

    def oldest(self, since: float, until: float) -> tuple[float, str]:
        """Return the greatest age of a record that arrived in the span, in seconds, and its partition."""
        found = (
            (self.oldest_of(one, since, until) or 0.0, f"{one[0]}-{one[1]}") for one in list(self._times)
        )
        return max(found, default=(0.0, ""))

    def oldest_of(self, place: Place, since: float, until: float) -> float | None:
        """Return the greatest age of a record of one partition; None if no record arrived."""
        span = slice(*_within(self._times.get(place, array("d")), since, until))
        return max(self._ages.get(place, array("d"))[span], default=None)

    def _read(self) -> None:
        try:
            self._follow()
        except BaseException as error:  # noqa: BLE001 - the run raises it
            self.failure = error

    def _follow(self) -> None:
        consumer = new_consumer(self._address)
        assigned: set[Place] = set()
        looked = 0.0
        while not self._stop.is_set():
            if time.monotonic() - looked > _LOOK_SECONDS:
                wanted = self._existing(consumer)
                if wanted is not None and wanted != assigned:
                    _assign(consumer, assigned, wanted)
                    assigned = wanted
                looked = time.monotonic()
            for message in consumer.consume(1_000, 0.1):
                topic, number = message.topic(), message.partition()
                if message.error() is None and topic in self._topics:
                    assert number is not None
                    self._note((topic, number), content(message), message.timestamp()[1] / 1_000)
        consumer.close()

    def _note(self, place: Place, record: Hashable, written: float) -> None:
        now, age = time.monotonic(), time.time() - written
        times, ages = (of.setdefault(place, array("d")) for of in (self._times, self._ages))
        if not times or now - times[-1] > _GRAIN_SECONDS:
            ages.append(age)
            times.append(now)
        ages[-1] = max(ages[-1], age)
        self._contents.setdefault(place, set()).add(record)

    def _existing(self, consumer: Consumer) -> set[Place] | None:
        """Return the existing partitions of the watched topics; None while the cluster does not respond."""
        try:
            topics = consumer.list_topics(timeout=_CALL_SECONDS).topics
        except KafkaException:
            return None
        return {
            (name, number) for name in self._topics if name in topics for number in topics[name].partitions
        }


def _assign(consumer: Consumer, before: set[Place], wanted: set[Place]) -> None:
    if gone := before - wanted:
        consumer.incremental_unassign([TopicPartition(*place) for place in gone])
    if added := wanted - before:
        places = [TopicPartition(*place, OFFSET_BEGINNING) for place in added]
        consumer.incremental_assign(places)


def _within(times: array[float], since: float, until: float) -> tuple[int, int]:
    return bisect.bisect_left(times, since), bisect.bisect_right(times, until)


def _silence(times: array[float], since: float, until: float) -> float:
    first, last = _within(times, since, until)
    around = times[max(0, first - 1) : last + 1]
    return max((later - sooner for sooner, later in itertools.pairwise(around)), default=0.0)
