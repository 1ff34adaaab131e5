"""A datastream's quota, divided among those who copy it. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from mirror.model.datastreams.datastream import Datastream
from mirror.model.identifiers import GroupName


def quotas_by_task(
    task_counts: Mapping[GroupName, int], datastreams: Iterable[Datastream]
) -> dict[GroupName, float]:
    """What one task of each group may copy, in bytes a second; groups without a quota are left out.

    Tasks are made to carry about the same, so that equal parts waste least. Every instance finds the same
    parts by itself, and all together never exceed the quota. Datastreams of one group share what they have
    together.
    """
    totals: Counter[GroupName] = Counter()
    for datastream in datastreams:
        try:
            if quota := datastream.policy.bytes_per_second:
                totals[datastream.group] += quota
        except Exception:  # noqa: BLE001, S112 - without a policy it has no lanes, which says why
            continue
    return {group: total / task_counts[group] for group, total in totals.items() if task_counts.get(group)}
