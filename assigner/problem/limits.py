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
    """Maximum number of partitions of a task, regardless of their load.

    `partitions`: None means no limit. The capacity depends only on a task's number of partitions, so stages
    check thousands of tasks in one array operation. Raises InvalidRequest if `partitions` is below 1.
    """

    partitions: int | None = None

    def __post_init__(self) -> None:
        if self.partitions is not None and self.partitions < 1:
            raise InvalidRequest(f"a task cannot be limited to {counted(self.partitions, 'partition')}")

    @property
    def is_bounded(self) -> bool:
        """Return whether the number of partitions of a task is limited. Without a limit, stages skip steps
        that concern only the number of partitions."""
        return self.partitions is not None

    def allows(self, counts: Counts) -> Mask:
        """Return a mask of the elements of `counts` that are permitted numbers of partitions of a task."""
        if self.partitions is None:
            return np.ones(counts.shape, dtype=bool)
        return np.asarray(counts <= self.partitions)

    def admits(self, counts: Counts) -> Mask:
        """Return a mask of the elements of `counts` that permit another partition in the task."""
        return self.allows(counts + 1)

    def admits_one(self, count: int) -> bool:
        """Return whether a task with that number of partitions may get another partition."""
        return self.partitions is None or count < self.partitions

    def most(self, partitions: int) -> int:
        """Return the number of partitions that fit into one task, regardless of load."""
        return partitions if self.partitions is None else min(self.partitions, partitions)

    def bound(self, partitions: int) -> int:
        """Return a lower bound on the number of tasks, regardless of load; 0 if one task suffices."""
        return 0 if self.partitions is None else -(-partitions // self.partitions)


UNLIMITED: Final = Limits()
"""No limits other than the load."""
