"""Limits of a task other than its load; all stages use `Limits`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from mirror.errors import InvalidRequest
from mirror.wording import counted

Counts = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Limits:
    """Maximum number of partitions in one task, whatever their load.

    `partitions`: None means no limit. The capacity depends only on a task's number of partitions, so stages
    check thousands of tasks in one array operation. Raises InvalidRequest if `partitions` is below 1.
    """

    partitions: int | None = None

    def __post_init__(self) -> None:
        if self.partitions is not None and self.partitions < 1:
            raise InvalidRequest(
                f"invalid maximum of {counted(self.partitions, 'partition')} per task: it must be at least 1"
            )

    @property
    def is_bounded(self) -> bool:
        """True if the number of partitions in a task is limited. Otherwise, stages skip steps that concern
        only this number."""
        return self.partitions is not None

    def allows(self, counts: Counts) -> Mask:
        """Return which of `counts` (partitions in each task) are within the limit, as a mask."""
        if self.partitions is None:
            return np.ones(counts.shape, dtype=bool)
        return np.asarray(counts <= self.partitions)

    def admits(self, counts: Counts) -> Mask:
        """Return which tasks may get another partition, as a mask. `counts`: partitions in each task."""
        return self.allows(counts + 1)

    def admits_one(self, count: int) -> bool:
        """Return whether a task with `count` partitions may get another partition."""
        return self.partitions is None or count < self.partitions

    def most(self, partitions: int) -> int:
        """Return how many of the partitions may share one task, whatever their load."""
        return partitions if self.partitions is None else min(self.partitions, partitions)

    def bound(self, partitions: int) -> int:
        """Return a lower bound on the number of tasks, whatever the load; 0 without a limit."""
        return 0 if self.partitions is None else -(-partitions // self.partitions)


UNLIMITED: Final = Limits()
"""No limits other than the load."""
