"""Result of the last synchronisation of a datastream's consumer groups, for health and metrics. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from mirror.jobs.groups.decision import FollowReason
from mirror.model.identifiers import DatastreamName
from mirror.wording import counted, first_few


@dataclass(frozen=True, slots=True)
class FollowingStatus:
    """Result of the last synchronisation pass for one datastream's consumer groups.

    `groups`: number of groups with positions in the topics of the datastream. `hindered`: groups that were
    not synchronised, with the first reason. `round_ms`: end of the last complete pass (epoch ms), None before
    the first. `failure`: error of the last pass, empty if it succeeded.
    """

    groups: int = 0
    hindered: Mapping[str, FollowReason] = field(default_factory=dict)
    round_ms: int | None = None
    failure: str = ""

    @property
    def reasons(self) -> Counter[str]:
        """Count the groups that were not synchronised, for each reason."""
        return Counter(reason.value for reason in self.hindered.values())


Statuses = Mapping[DatastreamName, FollowingStatus]


def sentence_of(statuses: Statuses) -> tuple[str, bool]:
    """Return a message for the health check, and whether the last pass of every datastream succeeded."""
    failures = [f"{name}: {status.failure}" for name, status in sorted(statuses.items()) if status.failure]
    if failures:
        they = counted(len(failures), "datastream")
        return f"cannot synchronise the groups of {they}: {first_few(failures, separator='; ')}", False
    count = sum(status.groups for status in statuses.values())
    hindered = [
        f"{group} ({reason})"
        for _, status in sorted(statuses.items())
        for group, reason in sorted(status.hindered.items())
    ]
    if not hindered:
        return f"{counted(count, 'consumer group follows', 'consumer groups follow')}", True
    what = counted(count, "consumer group does not", "consumer groups do not")
    return f"{len(hindered)} of {what} follow: {first_few(hindered)}", True
