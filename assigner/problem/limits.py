"""What one task may hold besides its load: every stage asks `Limits` and none knows the rule behind it."""

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
    """Which partitions a task may hold, whatever they carry: at most `partitions` of them; None: any number.

    The state of a task that the answers depend on is its number of partitions, so that stages can ask about
    thousands of tasks in one array operation. Raises InvalidRequest when `partitions` is below 1.
    """

    partitions: int | None = None

    def __post_init__(self) -> None:
        if self.partitions is not None and self.partitions < 1:
            raise InvalidRequest(f"a task of at most {counted(self.partitions, 'partition')} holds nothing")

    @property
    def is_bounded(self) -> bool:
        """Whether any task can be refused a partition; else stages skip what is only about counts."""
        return self.partitions is not None

    def allows(self, counts: Counts) -> Mask:
        """bool by entry of `counts`: a task may hold that number of partitions."""
        if self.partitions is None:
            return np.ones(counts.shape, dtype=bool)
        return np.asarray(counts <= self.partitions)

    def admits(self, counts: Counts) -> Mask:
        """bool by entry of `counts`: a task with that number of partitions may take one more."""
        return self.allows(counts + 1)

    def admits_one(self, count: int) -> bool:
        """As `admits`, of a single task."""
        return self.partitions is None or count < self.partitions

    def most(self, partitions: int) -> int:
        """How many of `partitions` partitions one task could hold."""
        return partitions if self.partitions is None else min(self.partitions, partitions)

    def bound(self, partitions: int) -> int:
        """Fewest tasks that could hold this number of partitions, whatever they carry; 0: one could."""
        return 0 if self.partitions is None else -(-partitions // self.partitions)


UNLIMITED: Final = Limits()
"""A task may hold anything."""
