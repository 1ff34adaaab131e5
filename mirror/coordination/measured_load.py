"""The load provider `self`: the rates that instances measured themselves, shared through ZooKeeper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mirror.coordination import znodes
from mirror.coordination.problems import reason_of
from mirror.errors import CorruptData, InvalidRequest, LoadUnavailable, NotFound
from mirror.model import bounds
from mirror.model.identifiers import ClusterRef, InstanceName
from mirror.model.load import LoadLevel, LoadReport, PartitionLoad, RateSource
from mirror.model.policy import LARGEST_RATE
from mirror.model.topics import TopicPartition
from mirror.ports import NodeStore

MeasuredRates = Mapping[ClusterRef, Mapping[TopicPartition, tuple[float, float]]]
"""Bytes and messages per second by source cluster and partition."""


class MeasuredLoads:
    """Writes an instance's own rates, and answers with everybody's."""

    def __init__(self, nodes: NodeStore) -> None:
        self._nodes = nodes

    def publish(self, instance: InstanceName, rates: MeasuredRates, now_ms: int) -> None:
        """Replace what this instance said before."""
        document = {
            "measured_ms": now_ms,
            "rates": {
                cluster: {str(key): [round(one), round(two, 1)] for key, (one, two) in by_partition.items()}
                for cluster, by_partition in rates.items()
            },
        }
        folder = znodes.child(znodes.LOADS, instance)
        chunks = znodes.encode_chunks(document)
        ours = {f"{number:04}": chunk for number, chunk in enumerate(chunks)}
        for name in set(self._nodes.children(folder)) - ours.keys():
            self._nodes.delete_tree(f"{folder}/{name}")
        for name, chunk in ours.items():
            path = f"{folder}/{name}"
            try:
                self._nodes.write(path, chunk, self._nodes.read(path).version)
            except NotFound:
                self._nodes.create(path, chunk)

    def withdraw(self, instance: InstanceName) -> None:
        """Forget an instance's rates."""
        self._nodes.delete_tree(znodes.child(znodes.LOADS, instance))

    def loads(self, cluster: ClusterRef, partitions: Sequence[TopicPartition]) -> LoadReport:
        """The newest rate of each partition that any instance measured. Raises LoadUnavailable."""
        newest: dict[TopicPartition, tuple[int, PartitionLoad]] = {}
        notes = []
        for node in self._nodes.children(znodes.LOADS):
            try:
                measured_ms, rates = self._read(f"{znodes.LOADS}/{node}", cluster)
            except (CorruptData, InvalidRequest, LookupError, TypeError, ValueError, AttributeError) as error:
                notes.append(f"what {znodes.name_of(node)} measured cannot be read: {reason_of(error)}")
                continue
            for partition, load in rates.items():
                if partition not in newest or newest[partition][0] < measured_ms:
                    newest[partition] = (measured_ms, load)
        if not newest:
            raise LoadUnavailable("no instance has measured a rate yet")
        known = {key: newest[key][1] for key in partitions if key in newest}
        measured_ms = max(measured for measured, _ in newest.values())
        return LoadReport(known, "self", measured_ms, notes=tuple(notes))

    def _read(self, folder: str, cluster: ClusterRef) -> tuple[int, Mapping[TopicPartition, PartitionLoad]]:
        try:
            chunks = [self._nodes.read(f"{folder}/{name}").data for name in self._nodes.children(folder)]
        except NotFound:
            return 0, {}  # withdrawn between the two reads
        if not chunks:
            return 0, {}
        document = znodes.decode_chunks(chunks, folder)
        measured_ms = bounds.integer("measured_ms", document["measured_ms"], 0, bounds.LARGEST_MS)
        rates = {
            TopicPartition.parse(key): PartitionLoad(
                bounds.number("a rate", one, 0, LARGEST_RATE),
                bounds.number("a rate", two, 0, LARGEST_RATE),
                LoadLevel.PARTITION,
                RateSource.MIRROR,
                measured_ms,
            )
            for key, (one, two) in document["rates"].get(cluster, {}).items()
        }
        return measured_ms, rates
