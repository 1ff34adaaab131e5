"""Detects logs that have lost records, with leader epochs (KIP-320)."""

from __future__ import annotations

from collections.abc import Mapping

from mirror.client.cluster import Cluster
from mirror.client.lookup.leader_offsets import Found, ask_leaders
from mirror.model.topics import TopicPartition
from mirror.protocol.control.offsets import ends_of_epochs


async def truncated_logs(
    cluster: Cluster, known: Mapping[TopicPartition, tuple[int, int]]
) -> set[TopicPartition]:
    """Return the partitions whose log was truncated after an earlier time, even if the log is longer now.

    `known`: leader epoch and end offset as of the earlier time. A log whose leader does not know the epoch
    counts as truncated. Raises Unreachable if a leader does not respond.
    """
    found: Found = {}
    epochs = {place: epoch for place, (epoch, _) in known.items()}
    if known:
        await cluster.patiently(lambda: ask_leaders(cluster, epochs, found, ends_of_epochs))
    return {place for place, answer in found.items() if not answer.error and answer.offset < known[place][1]}
