"""Pausing and resuming partitions of a datastream by topic. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from mirror.errors import InvalidRequest
from mirror.model import bounds
from mirror.model.datastreams.datastream import PartitionPause
from mirror.model.topics import checked_topic

Partitions = Mapping[str, frozenset[int] | None]
"""Partition numbers by topic; None: the whole topic."""


def paused(
    present: Mapping[str, PartitionPause], more: Partitions, reason: str, now_ms: int, requested_by: str = ""
) -> dict[str, PartitionPause]:
    """With more partitions paused; those of a topic that were paused already share the new reason."""
    pauses = dict(present)
    for topic, numbers in more.items():
        before = pauses.get(topic)
        is_whole = numbers is None or (before is not None and before.numbers is None)
        together = (before.numbers or frozenset() if before else frozenset()) | (numbers or frozenset())
        pauses[topic] = PartitionPause(None if is_whole else together, reason, now_ms, requested_by)
    return pauses


def resumed(present: Mapping[str, PartitionPause], fewer: Partitions) -> dict[str, PartitionPause]:
    """With partitions resumed; those that were not paused are fine. Raises InvalidRequest."""
    pauses = dict(present)
    for topic, numbers in fewer.items():
        before = pauses.get(topic)
        if before is None:
            continue
        if numbers is not None and before.numbers is None:
            raise InvalidRequest(
                f"all partitions of {topic} are paused, not single ones",
                advice=f"resume the topic as a whole: {topic}:*",
            )
        left = frozenset[int]() if numbers is None or before.numbers is None else before.numbers - numbers
        if left:
            pauses[topic] = replace(before, numbers=left)
        else:
            del pauses[topic]
    return pauses


def read_partitions(texts: Mapping[str, str]) -> dict[str, frozenset[int] | None]:
    """`{"orders": "0,13,2", "users": "*"}`, as Brooklin's clients write it. Raises InvalidRequest."""
    found: dict[str, frozenset[int] | None] = {}
    for name, text in texts.items():
        topic = checked_topic("the topic", name)
        parts = [part.strip() for part in text.split(",") if part.strip()]
        if "*" in parts:
            found[topic] = None
        elif parts:
            what = f"a partition of {topic}"
            found[topic] = frozenset(bounds.digits(what, part, 0, bounds.LARGEST_PARTITION) for part in parts)
        else:
            raise InvalidRequest(f"no partitions of {topic} are named", advice="write 0,13,2 or *")
    if not found:
        raise InvalidRequest(
            "no partitions are named", advice='for example {"orders": "0,13,2", "users": "*"}'
        )
    return found
