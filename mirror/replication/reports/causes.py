"""Classification of pauses by the error that caused them."""

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
class LaneFailure:
    """A failure of a lane that began at `since` and expires at `until`, in monotonic seconds.

    `side`: the failing cluster.
    """

    sentence: str
    since: float
    until: float
    side: PauseCause


def cause_of(error: HeadraceError, spec: LaneSpec, silent: Container[ClusterRef]) -> PauseCause:
    """Return the cause of a pause for that error. `silent`: clusters with overdue responses."""
    if isinstance(error, Unreachable):
        return cause_of_silence(spec, silent)
    found = (cause for kind, cause in _BY_ERROR if isinstance(error, kind))
    return next(found, PauseCause.OTHER)


def cause_of_silence(spec: LaneSpec, silent: Container[ClusterRef]) -> PauseCause:
    """Return which side does not respond; the source if neither does, because it comes first."""
    if spec.source in silent:
        return PauseCause.SOURCE_AWAY
    return PauseCause.DESTINATION_AWAY if spec.destination in silent else PauseCause.OTHER
