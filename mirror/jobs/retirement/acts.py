"""Idempotent requests to a cluster during the retirement of a topic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mirror.client.cluster import Cluster
from mirror.coordination.topic_retirement import WriteDenial
from mirror.errors import IllegalTransition, Unreachable
from mirror.model.topics import TopicPartition
from mirror.protocol.codes import MOVED, TRANSIENT, Code
from mirror.protocol.control.acls import EVERYONE, create_acls, delete_acls, deny_write, list_acls
from mirror.protocol.control.cluster import NO_TOPIC_ID
from mirror.protocol.control.offsets import LATEST
from mirror.protocol.control.topics import delete_records, delete_topic

_NOT_THERE: Final = frozenset({Code.UNKNOWN_TOPIC_OR_PARTITION, Code.UNKNOWN_TOPIC_ID})


async def current_id(cluster: Cluster, topic: str) -> str | None:
    """Return the topic id, an empty string for a cluster without topic ids, or None for a missing topic."""
    await cluster.refresh([topic])
    found = cluster.topics.get(topic)
    if found is None or found.error in _NOT_THERE:
        return None
    if found.error:
        raise cluster.error(found.error, f"describing topic {topic}", f"Describe on topic {topic}")
    return "" if found.topic_id == NO_TOPIC_ID else found.topic_id.hex()


async def denial_of(cluster: Cluster, topic: str) -> WriteDenial:
    """Return whether an ACL denies all writes to a topic. Raises NotAuthorized.

    Returns `NO_AUTHORIZER` for a cluster without an authorizer.
    """
    found = await cluster.patiently(lambda: cluster.ask_controller(list_acls(topic)))
    if found.error == Code.SECURITY_DISABLED:
        return WriteDenial.NO_AUTHORIZER
    if found.error:
        doing = f"reading the ACLs of topic {topic}"
        raise cluster.error(found.error, doing, "Describe on the cluster", found.message)
    return WriteDenial.FOUND if deny_write(topic, EVERYONE) in found.acls else WriteDenial.WANTED


async def deny_writes(cluster: Cluster, topic: str) -> None:
    """Create an ACL that denies Write on a topic to all principals. Raises NotAuthorized."""
    denial = deny_write(topic, EVERYONE)
    (found,) = await cluster.patiently(lambda: cluster.ask_controller(create_acls([denial])))
    if found.error:
        doing = f"denying writes to topic {topic}"
        raise cluster.error(found.error, doing, "Alter on the cluster", found.message)


async def allow_writes(cluster: Cluster, topic: str) -> None:
    """Delete the ACL of `deny_writes`, if it exists. Raises NotAuthorized."""
    denial = deny_write(topic, EVERYONE)
    (found,) = await cluster.patiently(lambda: cluster.ask_controller(delete_acls([denial])))
    if found.error not in (0, Code.SECURITY_DISABLED):
        doing = f"deleting the ACL that denies writes to topic {topic}"
        raise cluster.error(found.error, doing, "Alter on the cluster", found.message)


async def empty_partitions(cluster: Cluster, places: Sequence[TopicPartition]) -> bool:
    """Delete all records of the partitions. Raises Unreachable, NotAuthorized.

    Returns False if the topic is compacted and the brokers therefore reject the request.
    """
    ends = await cluster.offsets(dict.fromkeys(places, LATEST))
    for place in places:
        answer = ends[place]
        if answer.error:
            raise cluster.error(
                answer.error, f"reading the end of {place}", f"Describe on topic {place.topic}"
            )
        code = await cluster.patiently(lambda: _empty(cluster, place, answer.offset), topic=place.topic)  # noqa: B023
        if code == Code.POLICY_VIOLATION:
            return False
        if code:
            raise cluster.error(code, f"deleting the records of {place}", f"Delete on topic {place.topic}")
    return True


async def _empty(cluster: Cluster, place: TopicPartition, before: int) -> int:
    leader = cluster.leader(place)
    if leader is None:
        raise Unreachable(f"{place} has no leader")
    code = await cluster.ask(delete_records(place, before), leader[0])
    if code in TRANSIENT or code in MOVED:
        raise Unreachable(f"deleting the records of {place}: broker returned {code}")
    return code


async def remove_topic(cluster: Cluster, topic: str, topic_id: str) -> None:
    """Delete the topic unless it was recreated with another id. Raises NotAuthorized, Unreachable."""
    await cluster.refresh(())
    outcome = await cluster.ask_controller(delete_topic(topic, bytes.fromhex(topic_id)))
    if outcome.error and outcome.error not in _NOT_THERE:
        doing = f"deleting topic {topic}"
        raise cluster.error(outcome.error, doing, f"Delete on topic {topic}", outcome.message)


def require_same(topic: str, expected: str, found: str | None) -> None:
    """Raise IllegalTransition if the topic was deleted or recreated since it was sealed."""
    if found != expected:
        change = "deleted" if found is None else "re-created"
        raise IllegalTransition(
            f"topic {topic} was {change} after it was sealed",
            advice="run headrace topics restore to end the retirement",
        )
