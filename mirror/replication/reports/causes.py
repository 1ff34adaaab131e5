"""What kind of thing a lane waits for, told from what has failed in it."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import Final

from mirror.errors import EpochDiverged, HeadraceError, SourceTruncated, TopicRecreated, Unreachable
from mirror.model.datastreams.lanes import LaneSpec, PauseCause
from mirror.model.identifiers import ClusterRef

_BY_ERROR: Final = (
    (SourceTruncated, PauseCause.TRUNCATED),
    (EpochDiverged, PauseCause.TRUNCATED),
    (TopicRecreated, PauseCause.RECREATED),
)


@dataclass(slots=True)
class Failure:
    """What has failed in a lane since `since`; it counts as over after `until`, in monotonic seconds. `side`:
    the cluster that it has failed at."""

    sentence: str
    since: float
    until: float
    side: PauseCause


def cause_of(error: HeadraceError, spec: LaneSpec, silent: Container[ClusterRef]) -> PauseCause:
    """Of a pause for that error. `silent`: clusters that have not answered something now."""
    if isinstance(error, Unreachable):
        return cause_of_silence(spec, silent)
    found = (cause for kind, cause in _BY_ERROR if isinstance(error, kind))
    return next(found, PauseCause.OTHER)


def cause_of_silence(spec: LaneSpec, silent: Container[ClusterRef]) -> PauseCause:
    """Which side does not answer; the source where both do not, because it comes first."""
    if spec.source in silent:
        return PauseCause.SOURCE_AWAY
    return PauseCause.DESTINATION_AWAY if spec.destination in silent else PauseCause.OTHER
