"""Stores the observations of the last day for the next leader.

For each load source, an index lists the valid documents, one per observation. Documents are written before
the index, so partial writes are never read. Providers that datastreams choose have a separate folder, because
earlier versions read only the default provider.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mirror.coordination.stores import node_codec, znodes
from mirror.errors import AlreadyExists, CorruptData, InvalidRequest, NotFound, VersionConflict
from mirror.instance.loads.observations import DAY_MS
from mirror.model import bounds
from mirror.model.identifiers import ClusterRef
from mirror.model.load import HIGHEST_RATE, LoadLevel, LoadSource, PartitionLoad, RateSource
from mirror.model.reasons import damage_of
from mirror.model.topics import TopicPartition
from mirror.ports import NodeStore
from mirror.wording import counted

FORMAT: Final = 1
MOST_CHUNKS: Final = 8
"""Maximum number of chunks of one observation. A million partitions need fewer."""
MOST_OBSERVATIONS: Final = 16
"""Maximum number of stored observations of one source. A leader keeps fewer."""
_UNREADABLE: Final = (CorruptData, InvalidRequest, LookupError, TypeError, ValueError)


@dataclass(frozen=True)
class DatedObservation:
    """Loads of a load source at one time. Times are in epoch ms."""

    at_ms: int
    measured_at_ms: int | None
    loads: Mapping[TopicPartition, PartitionLoad]


@dataclass(frozen=True)
class StoredObservations:
    """Stored observations of one source. `observations`: maps document names to observations. `problems`:
    errors of unreadable documents."""

    observations: Mapping[str, DatedObservation]
    problems: tuple[str, ...] = ()


class ObservationStore:
    """Stores the observations of each load source. Used by the leader's thread."""

    def __init__(self, nodes: NodeStore) -> None:
        self._nodes = nodes

    def read(self, now_ms: int) -> Mapping[LoadSource, StoredObservations]:
        """Map each source to its stored observations of the last day. Damaged documents and unknown formats
        are reported as problems."""
        sources = [
            *(_source_of(node) for node in self._nodes.children(znodes.OBSERVATIONS)),
            *(_chosen_source_of(node) for node in self._nodes.children(znodes.CHOSEN_OBSERVATIONS)),
        ]
        return {source: self._stored_under(_folder(source), now_ms) for source in sources}

    def write(self, source: LoadSource, kept: Collection[str], new: Sequence[DatedObservation]) -> list[str]:
        """Store new observations of a source, and return their document names in order. `kept`: names of
        documents to keep; all others are removed. Raises InvalidRequest if an observation is too large."""
        folder = _folder(source)
        names = [self._document(folder, observation) for observation in new]
        version = self._version(folder)
        index = {"format": FORMAT, "names": [*kept, *names]}
        self._nodes.write(folder, node_codec.encode(index), version)
        for name in set(self._nodes.children(folder)) - {*kept, *names}:
            self._nodes.delete_tree(f"{folder}/{name}")
        return names

    def forget(self, source: LoadSource) -> None:
        """Delete the stored observations of a source that planning no longer uses."""
        self._nodes.delete_tree(_folder(source))

    def _version(self, folder: str) -> int:
        try:
            return self._nodes.read(folder).version
        except NotFound:
            try:
                self._nodes.create(folder)
            except AlreadyExists as error:
                raise VersionConflict(f"{folder} was written concurrently") from error
            return self._nodes.read(folder).version

    def _document(self, folder: str, observation: DatedObservation) -> str:
        chunks = node_codec.encode_chunks(_encoded(observation))
        if len(chunks) > MOST_CHUNKS:
            raise InvalidRequest(
                f"an observation of {counted(len(observation.loads), 'partition')} "
                f"needs {counted(len(chunks), 'node')}",
                advice=f"the limit is {MOST_CHUNKS} nodes; the next leader starts without this observation",
            )
        name = f"{observation.at_ms:015}-{secrets.token_hex(4)}x{len(chunks) - 1}"
        path = f"{folder}/{name}"
        further = [(f"{path}/{number:04}", chunk) for number, chunk in enumerate(chunks[1:])]
        self._nodes.create_all([(path, chunks[0]), *further])
        return name

    def _stored_under(self, folder: str, now_ms: int) -> StoredObservations:
        found: dict[str, DatedObservation] = {}
        problems = []
        try:
            data = self._nodes.read(folder).data
            names = _names(node_codec.decode(data, folder)) if data else []
        except NotFound:
            return StoredObservations({})
        except _UNREADABLE as error:
            return StoredObservations({}, (f"observations ignored: {damage_of(error)}",))
        for name in names:
            try:
                read = self._read(f"{folder}/{name}", name)
            except (NotFound, *_UNREADABLE) as error:
                problems.append(f"observation {name} ignored: {damage_of(error)}")
            else:
                if read.at_ms >= now_ms - DAY_MS:
                    found[name] = read
        return StoredObservations(found, tuple(problems))

    def _read(self, path: str, name: str) -> DatedObservation:
        further = bounds.digits("the chunks of a document", name.rpartition("x")[2], 0, MOST_CHUNKS)
        paths = [path, *(f"{path}/{number:04}" for number in range(further))]
        chunks = [node.data for node in self._nodes.read_all(paths)]
        return _decoded(node_codec.decode_chunks(chunks, path))


def _folder(source: LoadSource) -> str:
    if not source.provider:
        return znodes.child(znodes.OBSERVATIONS, source.cluster)
    return znodes.child(znodes.CHOSEN_OBSERVATIONS, f"{source.provider}:{source.cluster}")


def _source_of(node: str) -> LoadSource:
    return LoadSource(ClusterRef(znodes.name_of(node)))


def _chosen_source_of(node: str) -> LoadSource:
    """Parse the node name of a load source that a datastream chose.

    Provider names contain no colon, but cluster names may.
    """
    provider, _, cluster = znodes.name_of(node).partition(":")
    return LoadSource(ClusterRef(cluster), provider)


def _names(index: Mapping[str, Any]) -> list[str]:
    _check_format(index)
    names = bounds.sequence("observations", bounds.field(index, "names"), MOST_OBSERVATIONS)
    return [bounds.line("the name of an observation", name) for name in names]


def _check_format(document: Mapping[str, Any]) -> None:
    found = document.get("format")
    if found != FORMAT:
        raise InvalidRequest(f"unsupported format {bounds.shown(found)}, expected {FORMAT}")


def _encoded(observation: DatedObservation) -> dict[str, Any]:
    by_topic: dict[str, list[tuple[int, PartitionLoad]]] = {}
    for (topic, number), load in observation.loads.items():
        by_topic.setdefault(topic, []).append((number, load))
    topics = {}
    for topic, some in by_topic.items():
        some.sort(key=lambda pair: pair[0])
        topics[topic] = [
            node_codec.encode_ranges(number for number, _ in some),
            [round(load.bytes_per_second, 2) for _, load in some],
            [
                -1 if load.messages_per_second is None else round(load.messages_per_second, 2)
                for _, load in some
            ],
            [int(load.level is LoadLevel.TOPIC) for _, load in some],
        ]
    times = {"at_ms": observation.at_ms, "measured_at_ms": observation.measured_at_ms}
    return {"format": FORMAT, **times, "topics": topics}


def _decoded(document: Mapping[str, Any]) -> DatedObservation:
    """Parse a stored observation. Raises InvalidRequest and ValueError."""
    _check_format(document)
    at_ms = bounds.integer(
        "the time of the observation", bounds.field(document, "at_ms"), 0, bounds.LARGEST_MS
    )
    measured_ms = bounds.field(document, "measured_at_ms")
    if measured_ms is not None:
        bounds.integer("the time of the measurement", measured_ms, 0, bounds.LARGEST_MS)
    loads: dict[TopicPartition, PartitionLoad] = {}
    for topic, value in bounds.mapping("topics", bounds.field(document, "topics")).items():
        ranges, *columns = bounds.sequence("a topic", value, 4)
        text = bounds.text(f"partitions of {topic}", ranges, node_codec.LARGEST_DOCUMENT)
        numbers = list(node_codec.decode_ranges(text))
        rates, messages, of_topic = (
            bounds.sequence("loads", column, node_codec.MOST_PARTITIONS) for column in columns
        )
        for number, rate, records, is_mean in zip(numbers, rates, messages, of_topic, strict=True):
            load = PartitionLoad(
                bounds.number("a rate", rate, 0, HIGHEST_RATE),
                None if records == -1 else bounds.number("a rate", records, 0, HIGHEST_RATE),
                LoadLevel.TOPIC if bounds.integer("a level", is_mean, 0, 1) else LoadLevel.PARTITION,
                RateSource.HELD,
                at_ms if measured_ms is None else measured_ms,
            )
            loads[TopicPartition(topic, number)] = load
        if len(loads) > node_codec.MOST_PARTITIONS:
            raise InvalidRequest(f"more than {node_codec.MOST_PARTITIONS} partitions")
    return DatedObservation(at_ms, measured_ms, loads)
