"""Stores observations of topics, and retirements, in the coordination store. Thread-safe."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any, Final, NamedTuple

from pydantic import TypeAdapter, ValidationError

from mirror.coordination.stores import node_codec, znodes
from mirror.coordination.topic_retirement import Retirement
from mirror.coordination.topic_use import ClusterObservation, TopicHistory, TopicObservation, updated_history
from mirror.errors import (
    AlreadyExists,
    DamagedState,
    IllegalTransition,
    InvalidRequest,
    NotFound,
    VersionConflict,
)
from mirror.loggers import get_logger
from mirror.model.identifiers import ClusterRef
from mirror.options import first_problem
from mirror.ports import NodeStore

_log = get_logger(__name__)
_BUCKETS: Final = 64
_HISTORIES: Final = TypeAdapter(dict[str, TopicHistory])
_RETIREMENT: Final = TypeAdapter(Retirement)
_ATTEMPTS: Final = 5


class TopicUseStore:
    """Stores observations of the topics of each cluster.

    The topics are distributed over several nodes of the coordination store.
    """

    def __init__(self, nodes: NodeStore) -> None:
        self._nodes = nodes

    def read(self, cluster: ClusterRef) -> dict[str, TopicHistory]:
        """Map the topics of a cluster to their stored observations.

        Topics in a damaged node are missing, and therefore count as new.
        """
        parent = znodes.short_child(znodes.TOPIC_USE, cluster)
        paths = [f"{parent}/{number}" for number in range(_BUCKETS)]
        found: dict[str, TopicHistory] = {}
        for path, node in self._nodes.read_present(paths).items():
            found |= _histories(path, node.data)
        return found

    def note(
        self, cluster: ClusterRef, observation: ClusterObservation, now_ms: int
    ) -> dict[str, TopicHistory]:
        """Store an observation of all topics of a cluster. Return the updated observations.

        Observations of deleted topics are removed. Raises VersionConflict, Unreachable.
        """
        by_bucket: dict[int, dict[str, TopicObservation]] = {number: {} for number in range(_BUCKETS)}
        for topic, observed in observation.topics.items():
            by_bucket[zlib.crc32(topic.encode()) % _BUCKETS][topic] = observed
        parent = znodes.short_child(znodes.TOPIC_USE, cluster)
        paths = {f"{parent}/{number}": observations for number, observations in by_bucket.items()}
        present = self._nodes.read_present(list(paths))
        all_found: dict[str, TopicHistory] = {}
        for path, observations in paths.items():
            if observations or path in present:
                all_found |= self._note(path, observations, now_ms)
        return all_found

    def _note(
        self, path: str, observations: Mapping[str, TopicObservation], now_ms: int
    ) -> dict[str, TopicHistory]:
        """Update the observations in one node. Merges concurrent updates of several instances."""
        for _ in range(_ATTEMPTS):
            node = self._nodes.read_present([path]).get(path)
            before = {} if node is None else _histories(path, node.data)
            found = {
                topic: updated_history(before.get(topic), observed, now_ms)
                for topic, observed in observations.items()
            }
            data, *further = node_codec.encode_chunks(
                {topic: list(history) for topic, history in found.items()}
            )
            if further:
                raise InvalidRequest(
                    f"cannot store the observations of topics: they do not fit into node {path}",
                    advice="delete topics, or spread them over several clusters",
                )
            try:
                znodes.put_over(self._nodes, path, data, None if node is None else node.version)
            except VersionConflict:
                continue
            return found
        raise VersionConflict(f"{path} was written concurrently; retry")


def _histories(path: str, data: bytes) -> dict[str, TopicHistory]:
    try:
        return _HISTORIES.validate_python(node_codec.decode_chunks([data], path))
    except (DamagedState, ValidationError) as error:
        reason = first_problem(error) if isinstance(error, ValidationError) else str(error)
        _log.warning("observations of topics ignored: their node is damaged", node=path, reason=reason)
        return {}


class StoredRetirement(NamedTuple):
    """A stored retirement of a topic, with the version of its node."""

    retirement: Retirement
    version: int


class RetirementStore:
    """Stores the retirements of topics that are in progress. All writes are compare-and-set."""

    def __init__(self, nodes: NodeStore) -> None:
        self._nodes = nodes

    def all(self) -> list[Retirement]:
        """Return all retirements of topics, sorted. Raises Unreachable, DamagedState."""
        paths = [f"{znodes.RETIREMENTS}/{name}" for name in self._nodes.children(znodes.RETIREMENTS)]
        found = [_retirement(path, node.data) for path, node in self._nodes.read_present(paths).items()]
        return sorted(found, key=lambda retirement: (retirement.cluster, retirement.topic))

    def get(self, cluster: ClusterRef, topic: str) -> StoredRetirement | None:
        """Return the retirement of a topic. Raises Unreachable, DamagedState."""
        path = _path(cluster, topic)
        node = self._nodes.read_present([path]).get(path)
        return None if node is None else StoredRetirement(_retirement(path, node.data), node.version)

    def begin(self, retirement: Retirement) -> StoredRetirement:
        """Store a new retirement of a topic. Raises IllegalTransition if the topic already has one."""
        try:
            self._nodes.create(_path(retirement.cluster, retirement.topic), _encoded(retirement))
        except AlreadyExists as error:
            raise IllegalTransition(
                f"another retirement of topic {retirement.topic} has begun", advice="run the command again"
            ) from error
        return StoredRetirement(retirement, 0)

    def change(self, before: StoredRetirement, after: Retirement) -> StoredRetirement:
        """Replace a stored retirement, possibly with an equal one. Raises VersionConflict after a concurrent
        change."""
        path = _path(after.cluster, after.topic)
        try:
            version = self._nodes.write(path, _encoded(after), before.version)
        except NotFound as error:
            raise VersionConflict(f"the retirement of topic {after.topic} has already ended") from error
        return StoredRetirement(after, version)

    def note_problem(self, before: StoredRetirement, problem: str) -> StoredRetirement:
        """Store the error of the last attempt to continue a retirement."""
        return self.change(before, replace(before.retirement, problem=problem))

    def end(self, before: StoredRetirement) -> None:
        """Remove the stored retirement of a topic. Raises VersionConflict."""
        try:
            self._nodes.delete(_path(before.retirement.cluster, before.retirement.topic), before.version)
        except NotFound as error:
            raise VersionConflict(
                f"the retirement of topic {before.retirement.topic} has already ended"
            ) from error


def _path(cluster: ClusterRef, topic: str) -> str:
    return znodes.short_child(znodes.RETIREMENTS, f"{cluster} {topic}")


def _encoded(retirement: Retirement) -> bytes:
    return node_codec.encode(asdict(retirement))


def _retirement(path: str, data: bytes) -> Retirement:
    document: dict[str, Any] = node_codec.decode(data, path)
    try:
        return _RETIREMENT.validate_python(document)
    except ValidationError as error:
        raise DamagedState(
            f"znode {path} does not contain a retirement", advice="restore or delete it"
        ) from error
