"""Determines the cause of a lane's pause from the error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Final

from mirror.errors import (
    DestinationMissing,
    EpochDiverged,
    HeadraceError,
    SourceTruncated,
    TopicRecreated,
    Unreachable,
)
from mirror.model.datastreams.lanes import LaneSpec, PauseCause
from mirror.model.identifiers import ClusterRef

_BY_ERROR: Final = (
    (SourceTruncated, PauseCause.TRUNCATED),
    (EpochDiverged, PauseCause.TRUNCATED),
    (TopicRecreated, PauseCause.RECREATED),
    (DestinationMissing, PauseCause.NO_TOPIC),
)


@dataclass(slots=True)
class LaneFailure:
    """A failure of a lane, valid from `since` to `until` (monotonic seconds). `side`: the failing cluster."""

    sentence: str
    since: float
    until: float
    side: PauseCause


def cause_of(error: HeadraceError, spec: LaneSpec, silent: Mapping[ClusterRef, float]) -> PauseCause:
    """Return the cause of a lane's pause after that error. `silent`: maps clusters with overdue responses to
    the start of the silence (monotonic seconds)."""
    if isinstance(error, Unreachable):
        return cause_of_silence(spec, silent)
    found = (cause for kind, cause in _BY_ERROR if isinstance(error, kind))
    return next(found, PauseCause.OTHER)


def cause_of_silence(spec: LaneSpec, silent: Mapping[ClusterRef, float]) -> PauseCause:
    """Return whether the source or the destination does not respond. If both are silent, return the cluster
    with the longer silence, because the other may be about to respond."""
    since, until = silent.get(spec.source, inf), silent.get(spec.destination, inf)
    if since == until == inf:
        return PauseCause.OTHER
    return PauseCause.SOURCE_AWAY if since <= until else PauseCause.DESTINATION_AWAY
