"""What is judged of a datastream, out of what the service says of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from mirror.model.datastreams.datastream import LatencyObjective
from mirror.model.datastreams.objectives.objective import Objective
from mirror.model.topics import TopicSelection
from monitor.latency import Source, Subject

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
) -> Subject:
    """`paused`: topics of which partitions are paused, of which some are named. `reason`: what is wrong with
    the datastream, or empty; where it `sets_aside`, something of it is not copied."""
    return Subject(
        objective,
        source,
        selection,
        halted=reason if sets_aside else "",
        paused=", ".join(sorted(paused)[:_NAMES_SHOWN]),
        remark="" if sets_aside else reason,
        objectives=tuple(objectives),
    )


def groups_of_one(groups: Iterable[str], *, is_whole: bool) -> frozenset[str]:
    """`groups`: of every datastream that there is. None are of one where that of some is not known."""
    return frozenset(group for group, count in Counter(groups).items() if count == 1 and is_whole)
