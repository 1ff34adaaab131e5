"""Write rate over time: two daily waves, and a Zipf skew in which partitions change ranks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random
from typing import Final

TASK_BYTES_PER_SECOND: Final = 100_000
"""Quota of a task; a task with more load than this falls behind."""
UTILISATION_PERCENT: Final = 70
USABLE: Final = TASK_BYTES_PER_SECOND * UTILISATION_PERCENT // 100
PEAK: Final = 1_050_000.0
"""Bytes per second of all partitions together at the peak of a wave."""
LOWEST_SHARE: Final = 0.25
WAVES: Final = 2
SHIFTS: Final = 6
"""Intervals of a run; at each boundary some heavy partitions swap ranks with light ones."""
SWAPPED: Final = 9
HEAVY: Final = 30
"""Number of top ranks from which partitions are swapped."""
SKEW: Final = 0.55


@dataclass(frozen=True, slots=True)
class Topic:
    """Source topic: number of partitions and bytes per record."""

    partitions: int
    record_bytes: int


TOPICS: Final = {"orders": Topic(48, 1_000), "clicks": Topic(48, 200), "archive": Topic(24, 4_000)}


@dataclass(frozen=True, slots=True)
class Load:
    """Write load of a run of `seconds`. Equal seeds give equal loads; times outside the run use its ends."""

    seconds: float
    seed: int = 1

    def total(self, second: float) -> float:
        """Return the bytes per second of all partitions: `PEAK` in the middle of each wave."""
        part = min(max(second / self.seconds, 0.0), 1.0)
        wave = math.sin(math.pi * WAVES * part) ** 2
        return PEAK * (LOWEST_SHARE + (1 - LOWEST_SHARE) * wave)

    def rates(self, second: float) -> dict[str, dict[str, float]]:
        """Return the bytes per second of each partition by Zipf's law, in the format of `stack.traffic`."""
        places = self._ranked(min(max(int(second * SHIFTS / self.seconds), 0), SHIFTS - 1))
        weights = [(rank + 1) ** -SKEW for rank in range(len(places))]
        scale = self.total(second) / sum(weights)
        found: dict[str, dict[str, float]] = {name: {} for name in TOPICS}
        for (name, number), weight in zip(places, weights, strict=True):
            found[name][str(number)] = weight * scale
        return found

    def _ranked(self, stretch: int) -> list[tuple[str, int]]:
        """Return the partitions of an interval, heaviest first."""
        chance = Random(self.seed)
        places = [(name, number) for name, topic in TOPICS.items() for number in range(topic.partitions)]
        chance.shuffle(places)
        for _ in range(stretch):
            leaving = chance.sample(range(HEAVY), SWAPPED)
            coming = chance.sample(range(HEAVY, len(places)), SWAPPED)
            for one, other in zip(leaving, coming, strict=True):
                places[one], places[other] = places[other], places[one]
        return places
