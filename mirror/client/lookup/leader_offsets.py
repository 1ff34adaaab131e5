"""Requests offsets from the leaders of partitions, with one request per leader."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol, TypeVar

from mirror.client.event_loop import Loop
from mirror.errors import Unreachable
from mirror.model.topics import TopicPartition
from mirror.protocol.codes import MOVED, TRANSIENT, Code, name_of
from mirror.protocol.control.call import Call
from mirror.protocol.control.cluster import TopicMetadata
from mirror.protocol.control.offsets import Answers, OffsetAnswer, list_offsets

T = TypeVar("T")

_OFFSETS_AT_ONCE: Final = 2_000

Found = dict[TopicPartition, OffsetAnswer]
OffsetCall = Callable[[Mapping[TopicPartition, int]], Call[Answers]]
"""Creates the request for some partitions, each with a time or an epoch."""


class Leaders(Protocol):
    """Interface to the partition leaders of a cluster, for offset lookups. Implemented by `Cluster`."""

    name: str
    topics: dict[str, TopicMetadata]

    @property
    def loop(self) -> Loop:
        """Event loop of the cluster."""
        ...

    def leader(self, partition: TopicPartition) -> tuple[int, int] | None:
        """Return the broker id and the epoch of the partition's leader, or None if unknown."""
        ...

    async def ask(self, call: Call[T], broker: int | None = None) -> T:
        """Send a request to a broker."""
        ...

    async def refresh(self, topics: Iterable[str]) -> None:
        """Refresh the metadata of the given topics."""
        ...

    async def try_refresh(self, topics: Iterable[str]) -> None:
        """Refresh the metadata of the given topics. A failure is only logged."""
        ...


def by_time(*, committed: bool) -> OffsetCall:
    """Return a function that creates ListOffsets requests."""
    return lambda wanted: list_offsets(wanted, committed=committed)


async def ask_leaders(
    cluster: Leaders, wanted: Mapping[TopicPartition, int], found: Found, call_of: OffsetCall
) -> None:
    """Request the offsets missing in `found` once. Raises Unreachable if a retry may find more."""
    missing = {place: value for place, value in wanted.items() if place not in found}
    topics = {place.topic for place in missing}
    await cluster.refresh({place.topic for place in missing if cluster.leader(place) is None})
    try:
        codes = await _ask_each(cluster, missing, found, call_of)
    except Unreachable:
        await cluster.try_refresh(topics)
        raise
    if codes:
        # A new leader does not know its topic yet. `error_of` would map its error code to TopicMissing, a
        # permanent error, although the topic is in the metadata.
        await cluster.refresh(topics)
        request, code = call_of(missing).name, name_of(codes[0])
        raise Unreachable(f"{request} request to {cluster.name} failed: broker returned {code}")


async def _ask_each(
    cluster: Leaders, missing: Mapping[TopicPartition, int], found: Found, call_of: OffsetCall
) -> list[int]:
    """Send one request to each leader concurrently. Return the error codes that may be transient."""
    by_leader: dict[int, dict[TopicPartition, int]] = {}
    again: list[int] = []
    for place, when in missing.items():
        leader = cluster.leader(place)
        topic = cluster.topics.get(place.topic)
        if leader is not None:
            by_leader.setdefault(leader[0], {})[place] = when
        elif topic is not None and topic.error == Code.UNKNOWN_TOPIC_OR_PARTITION:
            found[place] = OffsetAnswer(topic.error, -1, -1)
        else:
            again.append(Code.LEADER_NOT_AVAILABLE)
    for answers in await cluster.loop.together(
        _ask_leader(cluster, broker, places, found, call_of) for broker, places in by_leader.items()
    ):
        again += answers
    return again


async def _ask_leader(
    cluster: Leaders, broker: int, places: Mapping[TopicPartition, int], found: Found, call_of: OffsetCall
) -> list[int]:
    items = list(places.items())
    again: list[int] = []
    for start in range(0, len(items), _OFFSETS_AT_ONCE):
        part = dict(items[start : start + _OFFSETS_AT_ONCE])
        for place, answer in (await cluster.ask(call_of(part), broker)).items():
            if answer.error in TRANSIENT or answer.error in MOVED:
                again.append(answer.error)
            else:
                found[place] = answer
    return again
