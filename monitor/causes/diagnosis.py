"""Diagnoses: the causes of late records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final


class Cause(StrEnum):
    """Possible causes of a datastream's late records. If two causes explain the same number of partitions,
    the one that this class defines first is reported."""

    PAUSED = "paused"
    OPEN_TRANSACTION = "open transaction"
    INSTANCE_LOST = "instance lost"
    """An instance was lost. Another instance has taken over its partitions, or the instance has returned."""
    WORKER_LOST = "worker process lost"
    SOURCE_AWAY = "source unavailable"
    DESTINATION_AWAY = "destination unavailable"
    """The destination cluster does not respond, or its partitions have no leader."""
    HOT_PARTITION = "hot partition"
    OVERLOADED_TASK = "overloaded task"
    OVERLOADED_INSTANCE = "overloaded instance"
    OUR_QUOTA = "throttled by our quota"
    BROKER_QUOTA = "throttled by a broker's quota"
    DESTINATION_BOUND = "destination-bound"
    SOURCE_BOUND = "source-bound"
    NETWORK = "network"
    INITIAL_COPY = "initial copy"
    AFTER_PAUSE = "catching up after a pause"
    BACKLOG = "catching up after an outage"
    START_UP = "start-up"
    WRONG_TIMESTAMPS = "wrong timestamps"
    """Records arrive in time but look late: clocks of producers are behind, or the timestamps are event
    times."""
    UNKNOWN = "unknown"
    """The evidence is insufficient to determine a cause."""


OF_PLACEMENT: Final = frozenset({Cause.HOT_PARTITION, Cause.OVERLOADED_TASK, Cause.OVERLOADED_INSTANCE})
"""Causes that a different placement may remove."""
_MAY_HELP: Final = OF_PLACEMENT | {Cause.OUR_QUOTA}
UNAVAILABLE: Final = {Cause.SOURCE_BOUND: Cause.SOURCE_AWAY, Cause.DESTINATION_BOUND: Cause.DESTINATION_AWAY}
"""Cause that applies instead of another if the cluster still does not respond."""
CATCH_UPS: Final = frozenset({Cause.INITIAL_COPY, Cause.AFTER_PAUSE, Cause.BACKLOG})
"""Causes in which a past event has left a backlog."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Cause of a datastream's late records.

    `sentence`: description with numbers, and the second most frequent cause if any. `evidence`: measured
    values by name. `can_move`: load can move to another task. `rests_on_wait`: the only evidence for the
    cause source-bound or network is the time that records waited at the source. The cause is uncertain,
    because the time is also high while a backlog is copied.
    """

    cause: Cause
    sentence: str
    evidence: Mapping[str, float | str] = field(default_factory=dict)
    second: Cause | None = None
    can_move: bool = True
    rests_on_wait: bool = False

    @property
    def placement_can_help(self) -> bool:
        """True if moving partitions may help, so that a dry run of a rebalance is worthwhile."""
        return self.cause in _MAY_HELP and self.can_move
