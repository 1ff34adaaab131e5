"""What is written at each moment: two waves, and a Zipf skew of which a part moves to other partitions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random
from typing import Final

TASK_BYTES_PER_SECOND: Final = 150_000
"""What a task may copy, enforced as its quota, so that one with too much falls behind."""
UTILISATION_PERCENT: Final = 70
USABLE: Final = TASK_BYTES_PER_SECOND * UTILISATION_PERCENT // 100
PEAK: Final = 700_000.0
"""Bytes a second of all partitions together at the top of a wave."""
LOWEST_SHARE: Final = 0.25
WAVES: Final = 2
SHIFTS: Final = 6
"""Stretches of a run; from one to the next some heavy partitions change places with others."""
SWAPPED: Final = 3
HEAVY: Final = 10
"""The first ranks, of which some change places."""
SKEW: Final = 0.7


@dataclass(frozen=True, slots=True)
class Topic:
    """A source topic: its number of partitions and the bytes of each of its records."""

    partitions: int
    record_bytes: int


TOPICS: Final = {"orders": Topic(16, 1_000), "clicks": Topic(16, 200), "archive": Topic(8, 4_000)}


@dataclass(frozen=True, slots=True)
class Load:
    """The load of a run of `seconds`; equal seeds give equal loads. Outside of them it is as at its ends."""

    seconds: float
    seed: int = 1

    def total(self, second: float) -> float:
        """Bytes a second of all partitions at a moment: `PEAK` in the middle of each wave."""
        part = min(max(second / self.seconds, 0.0), 1.0)
        wave = math.sin(math.pi * WAVES * part) ** 2
        return PEAK * (LOWEST_SHARE + (1 - LOWEST_SHARE) * wave)

    def rates(self, second: float) -> dict[str, dict[str, float]]:
        """Bytes a second of each partition, as `stack.traffic` takes them: by the law of Zipf."""
        places = self._ranked(min(max(int(second * SHIFTS / self.seconds), 0), SHIFTS - 1))
        weights = [(rank + 1) ** -SKEW for rank in range(len(places))]
        scale = self.total(second) / sum(weights)
        found: dict[str, dict[str, float]] = {name: {} for name in TOPICS}
        for (name, number), weight in zip(places, weights, strict=True):
            found[name][str(number)] = weight * scale
        return found

    def _ranked(self, stretch: int) -> list[tuple[str, int]]:
        """Partitions in a stretch, heaviest first."""
        chance = Random(self.seed)
        places = [(name, number) for name, topic in TOPICS.items() for number in range(topic.partitions)]
        chance.shuffle(places)
        for _ in range(stretch):
            leaving = chance.sample(range(HEAVY), SWAPPED)
            coming = chance.sample(range(HEAVY, len(places)), SWAPPED)
            for one, other in zip(leaving, coming, strict=True):
                places[one], places[other] = places[other], places[one]
        return places
