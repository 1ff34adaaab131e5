"""Deletes topics."""

from __future__ import annotations

from mirror.client.cluster import Cluster
from mirror.protocol.codes import MISSING
from mirror.protocol.control.topics import delete_topic


async def remove_topic(cluster: Cluster, topic: str, topic_id: str = "") -> None:
    """Delete the topic if it exists. With an id, delete it only if it still has this id.

    Raises NotAuthorized, Unreachable.
    """
    await cluster.refresh(())
    outcome = await cluster.ask_controller(delete_topic(topic, bytes.fromhex(topic_id)))
    if outcome.error and outcome.error not in MISSING:
        doing = f"cannot delete topic {topic}"
        raise cluster.error(outcome.error, doing, f"Delete on topic {topic}", outcome.message)
