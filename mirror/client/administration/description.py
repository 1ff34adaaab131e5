"""Reads the settings of topics, many with one request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mirror.client.cluster import Cluster
from mirror.model.datastreams.policy import KEEPING_SETTINGS
from mirror.model.topics import TopicDescription
from mirror.protocol.codes import MISSING, Code
from mirror.protocol.control.topics import DescribedTopic, describe_each, values_of

_AT_ONCE: Final = 200
_NO_RESULT: Final = DescribedTopic(Code.UNKNOWN_SERVER_ERROR, "no result", {})


async def describe_topics(cluster: Cluster, partitions: Mapping[str, int]) -> dict[str, TopicDescription]:
    """Return the descriptions of topics with their settings. A failed topic does not affect the others.

    `partitions`: partition count by topic. Topics that no longer exist are omitted. Raises Unreachable.
    """
    found: dict[str, TopicDescription] = {}
    names = list(partitions)
    for start in range(0, len(names), _AT_ONCE):
        part = names[start : start + _AT_ONCE]
        results = await cluster.ask(describe_each(part))
        for name in part:
            result = results.get(name, _NO_RESULT)
            if result.error in MISSING:
                continue
            error = None
            if result.error:
                doing = f"cannot read the settings of topic {name} on {cluster.name}"
                error = cluster.error(result.error, doing, f"DescribeConfigs on topic {name}", result.message)
            own, defaults = values_of(result.settings, KEEPING_SETTINGS)
            found[name] = TopicDescription(name, partitions[name], own, defaults, error)
    return found
