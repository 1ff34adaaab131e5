"""What a diagnosis is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final


class Cause(StrEnum):
    """Why records are late. Of two that explain as many partitions the first one here counts."""

    PAUSED = "paused"
    OPEN_TRANSACTION = "open transaction"
    WORKER_LOST = "worker process lost"
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
    UNKNOWN = "unknown"
    """The evidence does not say."""


OF_PLACEMENT: Final = frozenset({Cause.HOT_PARTITION, Cause.OVERLOADED_TASK, Cause.OVERLOADED_INSTANCE})
"""Those that another placement may end."""
_MAY_HELP: Final = OF_PLACEMENT | {Cause.OUR_QUOTA}
CATCH_UPS: Final = frozenset({Cause.INITIAL_COPY, Cause.AFTER_PAUSE, Cause.BACKLOG})
"""Those of a backlog that is left of something that is over."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """`sentence` has the numbers, and names the second cause where there are several. `evidence`: the numbers
    by their names. `can_move`: whether a cause of placement has somewhere to go. `rests_on_wait`: it is
    source-bound by where records waited alone, which looks the same while a backlog is worked off."""

    cause: Cause
    sentence: str
    evidence: Mapping[str, float | str] = field(default_factory=dict)
    second: Cause | None = None
    can_move: bool = True
    rests_on_wait: bool = False

    @property
    def placement_can_help(self) -> bool:
        """Whether a rebalance is worth a dry run."""
        return self.cause in _MAY_HELP and self.can_move
