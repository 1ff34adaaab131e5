"""Divides the quota of a datastream among its tasks. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from mirror.bulkheads import Bulkhead
from mirror.model.datastreams.datastream import Datastream
from mirror.model.identifiers import GroupName


def quotas_by_task(
    task_counts: Mapping[GroupName, int], datastreams: Iterable[Datastream]
) -> dict[GroupName, float]:
    """Return the quota of each task of a group, in bytes per second. Groups without a quota are omitted.

    All tasks of a group get the same share, because their loads are about equal. Every instance computes the
    shares independently, and their sum never exceeds the quota. Datastreams of one group share the sum of
    their quotas.
    """
    totals: Counter[GroupName] = Counter()
    for datastream in datastreams:
        with Bulkhead():  # without a policy it has no lanes, which report the reason
            if quota := datastream.policy.bytes_per_second:
                totals[datastream.group] += quota
    return {group: total / task_counts[group] for group, total in totals.items() if task_counts.get(group)}
