"""The load provider `self`: rates and backlogs that instances measure and share through the store.

Each instance publishes with the time of its own clock. A reader with a clock measures the age of a
publication from the moment at which it saw the publication change, so a clock that differs by minutes makes
no load older or newer than it is. Only the age of the first publication that a reader finds depends on both
clocks.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from mirror.coordination.stores import node_codec, znodes
from mirror.errors import CorruptData, InvalidRequest, NoSamples, NotFound
from mirror.model import bounds
from mirror.model.capacity.catch_up import LONGEST_SECONDS, SHORTEST_SECONDS
from mirror.model.identifiers import ClusterRef, InstanceName
from mirror.model.load import HIGHEST_RATE, Freshness, LoadLevel, LoadReport, PartitionLoad, RateSource
from mirror.model.reasons import damage_of
from mirror.model.topics import TopicPartition
from mirror.ports import NodeStore

MeasuredRates = Mapping[ClusterRef, Mapping[TopicPartition, tuple[float, float]]]
"""For each source cluster, bytes and messages per second of each partition."""

Behind = Mapping[ClusterRef, Collection[TopicPartition]]
"""For each source cluster, partitions that may receive records faster than the measured rate."""


class LateRecords(NamedTuple):
    """Backlog of one partition: records that are not copied yet and are already late.

    `catch_up_seconds`: time in which the backlog should be copied; None for the global setting.
    """

    bytes: float
    messages: float
    catch_up_seconds: int | None = None


@dataclass(frozen=True, slots=True)
class InstanceMeasurements:
    """Measurements of one instance: arrival rates and backlogs of its partitions on each cluster."""

    rates: MeasuredRates
    behind: Behind = field(default_factory=dict)
    waiting: Mapping[ClusterRef, Mapping[TopicPartition, LateRecords]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Read:
    """Rates and backlogs that one instance has measured for one cluster."""

    measured_ms: int = 0
    rates: Mapping[TopicPartition, PartitionLoad] = field(default_factory=dict)
    behind: frozenset[TopicPartition] = frozenset()
    waiting: Mapping[TopicPartition, LateRecords] = field(default_factory=dict)


STALE_AFTER_MS: Final = 60_000
"""Time in ms without a publication after which measurements are stale. Instances publish every few
seconds."""
_MOST_WAITING: Final = 10**18
_RATES: Final = "/rates"
"""Suffix that distinguishes the rates of an instance from its summary."""
_UNREADABLE: Final = (CorruptData, InvalidRequest, LookupError, TypeError, ValueError, AttributeError)


class _Publication(NamedTuple):
    """A publication as the reader saw it last: time by the publisher's clock; time of the measurement and of
    the last read by the reader's clock (epoch ms)."""

    published_ms: int
    measured_ms: int
    read_ms: int


class _Publications:
    """Converts the times of publications to the reader's clock. Thread-safe."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._lock = threading.Lock()
        self._known: dict[str, _Publication] = {}

    def measured_ms(self, path: str, published_ms: int) -> int:
        """Return the time of a publication by the reader's clock: between the last two reads if it is new."""
        now_ms = self._now_ms()
        with self._lock:
            known = self._known.get(path)
            if known is None:
                at_ms = min(published_ms, now_ms)
            elif known.published_ms == published_ms:
                at_ms = known.measured_ms
            else:
                at_ms = min(max(published_ms, known.read_ms), now_ms)
            self._known[path] = _Publication(published_ms, at_ms, now_ms)
        return at_ms

    def keep(self, folders: Collection[str]) -> None:
        """Drop the publications of instances that have no folder any longer."""
        with self._lock:
            self._known = {
                path: one for path, one in self._known.items() if path.removesuffix(_RATES) in folders
            }


class MeasuredLoads:
    """Publishes the measurements of one instance, and reads those of all instances. `now_ms`: clock of a
    reader (epoch ms); None to return times as published."""

    def __init__(self, nodes: NodeStore, now_ms: Callable[[], int] | None = None) -> None:
        self._nodes = nodes
        self._publications = _Publications(now_ms) if now_ms is not None else None

    def publish(self, instance: InstanceName, measured: InstanceMeasurements, now_ms: int) -> None:
        """Replace the published measurements of this instance.

        Without rates, only the summary is replaced, so that the last known rates remain.
        """
        rates, behind = measured.rates, measured.behind
        document = {
            "measured_ms": now_ms,
            "behind": {cluster: node_codec.encode_partitions(some) for cluster, some in behind.items()},
            "waiting": {
                cluster: {
                    str(key): [round(load.bytes), round(load.messages), load.catch_up_seconds]
                    for key, load in by_partition.items()
                }
                for cluster, by_partition in measured.waiting.items()
            },
            "rates": {
                cluster: {
                    str(key): [round(byte_rate), round(message_rate, 1)]
                    for key, (byte_rate, message_rate) in by_partition.items()
                }
                for cluster, by_partition in rates.items()
            },
        }
        folder = znodes.child(znodes.LOADS, instance)
        if rates:
            self._replace(folder, node_codec.encode_chunks(document))
        counts = {name: [len(some), len(behind.get(name, ()))] for name, some in rates.items()}
        znodes.put(self._nodes, folder, node_codec.encode({"measured_ms": now_ms, "clusters": counts}))

    def _replace(self, folder: str, chunks: Sequence[bytes]) -> None:
        ours = {f"{number:04}": chunk for number, chunk in enumerate(chunks)}
        for name in set(self._nodes.children(folder)) - ours.keys():
            self._nodes.delete_tree(f"{folder}/{name}")
        for name, chunk in ours.items():
            znodes.put(self._nodes, f"{folder}/{name}", chunk)

    def freshness(self, cluster: ClusterRef) -> Freshness:
        """Return when the cluster was last measured, and the numbers of measured and late partitions. The
        time is missing if no instance measures partitions of the cluster."""
        found = []
        paths = [f"{znodes.LOADS}/{node}" for node in self._nodes.children(znodes.LOADS)]
        for path, node in self._nodes.read_present(paths).items():
            try:
                summary = node_codec.decode(node.data, path)
                counts = bounds.sequence("counts", summary["clusters"][cluster], 2)
                some, slow = (
                    bounds.integer("partitions", count, 0, node_codec.MOST_PARTITIONS) for count in counts
                )
                at_ms = self._measured_ms(path, summary)
            except _UNREADABLE:
                continue  # the instance measures nothing of this cluster, or has an older version
            found.append((at_ms, some, slow))
        newest_ms = max((at_ms for at_ms, _, _ in found), default=None)
        if newest_ms is None:
            return Freshness(None, STALE_AFTER_MS)
        recent = [report for report in found if report[0] >= newest_ms - STALE_AFTER_MS]
        return Freshness(
            newest_ms,
            STALE_AFTER_MS,
            sum(report[1] for report in recent),
            sum(report[2] for report in recent),
        )

    def _measured_ms(self, path: str, document: Mapping[str, Any]) -> int:
        published_ms = bounds.integer("measured_ms", document["measured_ms"], 0, bounds.LARGEST_MS)
        return self._publications.measured_ms(path, published_ms) if self._publications else published_ms

    def withdraw(self, instance: InstanceName) -> None:
        """Delete the published measurements of an instance."""
        self._nodes.delete_tree(znodes.child(znodes.LOADS, instance))

    def loads(self, cluster: ClusterRef, partitions: Sequence[TopicPartition]) -> LoadReport:
        """Return the latest rate of each partition, measured by any instance. Raises NoSamples."""
        newest, notes = self._newest(cluster)
        if not newest:
            raise NoSamples("no instance has reported a measured rate yet")
        known = {key: newest[key].rates[key] for key in partitions if key in newest}
        measured_ms = max(measured.measured_ms for measured in newest.values())
        at_least = frozenset(key for key in known if key in newest[key].behind)
        return LoadReport(known, "self", measured_ms, tuple(notes), at_least)

    def waiting(self, cluster: ClusterRef) -> Mapping[TopicPartition, LateRecords]:
        """Return the latest backlog of each late partition of the cluster."""
        newest, _ = self._newest(cluster)
        return {key: measured.waiting[key] for key, measured in newest.items() if key in measured.waiting}

    def _newest(self, cluster: ClusterRef) -> tuple[dict[TopicPartition, _Read], list[str]]:
        """Return the latest measurement of each partition, and a message for each unreadable measurement."""
        newest, notes = dict[TopicPartition, _Read](), list[str]()
        nodes = self._nodes.children(znodes.LOADS)
        if self._publications is not None:
            self._publications.keep({f"{znodes.LOADS}/{node}" for node in nodes})
        for node in nodes:
            try:
                found = self._read(f"{znodes.LOADS}/{node}", cluster)
            except _UNREADABLE as error:
                notes.append(f"cannot read the measurements of {znodes.name_of(node)}: {damage_of(error)}")
                continue
            for partition in found.rates:
                if partition not in newest or newest[partition].measured_ms < found.measured_ms:
                    newest[partition] = found
        return newest, notes

    def _read(self, folder: str, cluster: ClusterRef) -> _Read:
        try:
            paths = [f"{folder}/{name}" for name in self._nodes.children(folder)]
            chunks = [node.data for node in self._nodes.read_all(paths)]
        except NotFound:
            return _Read()  # withdrawn between the two reads
        if not chunks:
            return _Read()
        document = node_codec.decode_chunks(chunks, folder)
        measured_ms = self._measured_ms(folder + _RATES, document)
        rates = {
            TopicPartition.parse(key): PartitionLoad(
                bounds.number("a rate", byte_rate, 0, HIGHEST_RATE),
                bounds.number("a rate", message_rate, 0, HIGHEST_RATE),
                LoadLevel.PARTITION,
                RateSource.MIRROR,
                measured_ms,
            )
            for key, (byte_rate, message_rate) in document["rates"].get(cluster, {}).items()
        }
        lagging = bounds.mapping(
            "behind", bounds.mapping("behind", document.get("behind", {})).get(cluster, {})
        )
        for topic, ranges in lagging.items():
            bounds.text(f"partitions of {topic}", ranges, node_codec.LARGEST_DOCUMENT)
        late = bounds.mapping(
            "waiting", bounds.mapping("waiting", document.get("waiting", {})).get(cluster, {})
        )
        waiting = {TopicPartition.parse(key): _waiting(waiting) for key, waiting in late.items()}
        return _Read(measured_ms, rates, node_codec.decode_partitions(lagging), waiting)


def _waiting(value: Any) -> LateRecords:
    size, messages, seconds = bounds.sequence("waiting", value, 3)
    if seconds is not None:
        seconds = bounds.integer("catch_up_seconds", seconds, SHORTEST_SECONDS, LONGEST_SECONDS)
    return LateRecords(
        bounds.number("waiting bytes", size, 0, _MOST_WAITING),
        bounds.number("waiting messages", messages, 0, _MOST_WAITING),
        seconds,
    )
