"""Converts the service's report on a datastream to a subject of evaluation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from mirror.model.datastreams.datastream import LatencyObjective
from mirror.model.datastreams.objectives import Objective
from mirror.model.topics import TopicSelection
from monitor.latency import ObjectiveSubject, Source

_NAMES_SHOWN: Final = 5


def subject_of(
    objective: LatencyObjective | None,
    source: Source,
    selection: TopicSelection,
    objectives: Iterable[Objective],
    *,
    paused: Iterable[str],
    reason: str,
    sets_aside: bool,
) -> ObjectiveSubject:
    """Return the subject whose latency objectives the monitor evaluates for a datastream.

    `paused`: topics with paused partitions, if known. `reason`: problem of the datastream, or an empty
    string. `sets_aside`: the problem prevents the copying of a part of the datastream.
    """
    return ObjectiveSubject(
        objective,
        source,
        selection,
        halted=reason if sets_aside else "",
        paused=", ".join(sorted(paused)[:_NAMES_SHOWN]),
        remark="" if sets_aside else reason,
        objectives=tuple(objectives),
    )


def groups_of_one(groups: Iterable[str], *, is_whole: bool) -> frozenset[str]:
    """Return the names of groups that consist of one datastream. `groups`: the group of each datastream.
    Empty unless `is_whole`, that is, unless all datastreams are known."""
    return frozenset(group for group, count in Counter(groups).items() if count == 1 and is_whole)
