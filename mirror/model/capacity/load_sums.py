"""Sums over the partitions of a group in an hour, for a lower bound of its tasks."""

from __future__ import annotations

from typing import NamedTuple


class LoadSums(NamedTuple):
    """Sums over the partitions of a group whose load in an hour is known; rates are per second.

    `alone`: number of partitions whose load exceeds the usable capacity of a task; each gets its own task.
    The other fields do not include such partitions. `rest_bytes`, `rest_messages`: total rates. `heavy`:
    number of partitions that fill more than half of a task. Unknown message rates count as 0.
    """

    partitions: int
    bytes: float
    alone: int
    rest_bytes: float
    rest_messages: float
    heavy: int
