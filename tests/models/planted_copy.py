"""A topic and its copy with planted faults, as values: which records are where, and what a lane claims."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Final

from mirror.audit.verdicts import Verdict
from tests.fakes.broker.batches import Content

BEGUN_MS: Final = 1_700_000_000_000
Place = tuple[Verdict, int, int, int]
"""Verdict, partition, source offset, destination offset; -1 for none."""


@dataclass
class PlantedPartition:
    """One partition: records of both sides by offset, the offsets that were filtered, and the offset map."""

    source: dict[int, Content]
    filtered: set[int]
    copies: dict[int, int]
    target: dict[int, Content] = field(default_factory=dict)

    def copy(self) -> None:
        """Fill the destination as a lane without faults would."""
        self.target = {there: self.source[here] for here, there in self.copies.items()}

    def unique(self) -> list[int]:
        """Return the copied source offsets whose content occurs once."""
        counts = Counter(map(repr, self.source.values()))
        return [offset for offset in self.copies if counts[repr(self.source[offset])] == 1]

    def insert(self, there: int, content: Content) -> None:
        """Insert a record of another writer at a destination offset, which the lane saw."""
        self.target = {at + (at >= there): one for at, one in self.target.items()} | {there: content}
        self.copies = {here: at + (at >= there) for here, at in self.copies.items()}

    @property
    def end(self) -> int:
        """End of the destination log."""
        return max(self.target, default=-1) + 1


@dataclass
class PlantedFault:
    """Name of a fault, and the expected findings: exactly `places`, or at least one of `any_of`. `counts`:
    expected numbers of records by verdict."""

    name: str
    places: set[Place] = field(default_factory=set)
    any_of: set[Place] = field(default_factory=set)
    counts: dict[Verdict, int] = field(default_factory=dict)
    what: str = ""


def planted_copy(random: Random, partitions: int = 3) -> list[PlantedPartition]:
    """Return partitions with filtered records, holes in both logs, repeated contents and late timestamps."""
    return [_partition(random, number) for number in range(partitions)]


def _partition(random: Random, number: int) -> PlantedPartition:
    count = random.randint(12, 60)
    source: dict[int, Content] = {}
    filtered: set[int] = set()
    copies: dict[int, int] = {}
    there = random.choice([0, 0, 7])
    for here in range(count):
        if random.random() < 0.05 and here not in (0, count - 1):
            continue  # removed from the source before it was copied
        source[here] = _content(random, f"{number}-{here}")
        if random.random() < 0.1 and copies and here < count - 1:
            filtered.add(here)
            continue
        there += random.random() < 0.05  # a marker of the lane's own transaction
        copies[here] = there
        there += 1
    made = PlantedPartition(source, filtered, copies)
    made.copy()
    return made


def _content(random: Random, name: str) -> Content:
    if random.random() < 0.2:
        return (BEGUN_MS, b"same", b"same", [])
    key = random.choice([None, b"", name.encode()])
    value = random.choice([name.encode(), name.encode() * 40])
    shapes: list[list[tuple[str, bytes | None]]] = [[], [("h", None)], [("h", b""), ("h", b"1")]]
    return (BEGUN_MS + random.randint(-2_000_000, 2_000_000), key, value, random.choice(shapes))


def drop(random: Random, made: list[PlantedPartition]) -> PlantedFault:
    """Drop a record: from the destination, or between the lane and the destination, whose offsets shift."""
    number, here = _any_record(random, made)
    part = made[number]
    there = part.copies[here]
    shift = random.random() < 0.5
    part.target = {at - (shift and at > there): one for at, one in part.target.items() if at != there}
    places = {(Verdict.MISSING, number, here, -1)}
    return PlantedFault("drop", places, counts={Verdict.MISSING: 1})


def duplicate(random: Random, made: list[PlantedPartition]) -> PlantedFault:
    """Write a record a second time, anywhere in its partition."""
    number, here = _any_record(random, made)
    part = made[number]
    there = random.randint(min(part.target) + 1, part.end)
    part.insert(there, part.source[here])
    places = {(Verdict.DUPLICATED, number, here, there)}
    return PlantedFault("duplicate", places, counts={Verdict.DUPLICATED: 1})


def alter(random: Random, made: list[PlantedPartition]) -> PlantedFault:
    """Change one field of a record."""
    number, here = _any_record(random, made)
    part = made[number]
    there = part.copies[here]
    timestamp, key, value, headers = part.target[there]
    name = random.choice(["key", "value", "headers", "timestamp"])
    changed: dict[str, Content] = {
        "key": (timestamp, (key or b"") + b"!", value, headers),
        "value": (timestamp, key, random.choice([None, b"", b"altered"]), headers),
        "headers": (timestamp, key, value, [*headers, ("more", None)]),
        "timestamp": (timestamp + random.choice([-1, 1, 10**9]), key, value, headers),
    }
    part.target[there] = changed[name]
    places = {(Verdict.ALTERED, number, here, there)}
    return PlantedFault("alter", places, counts={Verdict.ALTERED: 1}, what=name)


def reorder(random: Random, made: list[PlantedPartition]) -> PlantedFault:
    """Exchange two records of a partition."""
    number = random.randrange(len(made))
    part = made[number]
    one, two = sorted(random.sample(part.unique(), 2))
    here, there = part.copies[one], part.copies[two]
    part.target[here], part.target[there] = part.target[there], part.target[here]
    places = {(Verdict.ALTERED, number, one, there), (Verdict.ALTERED, number, two, here)}
    return PlantedFault("reorder", any_of=places, what="order")


def move(random: Random, made: list[PlantedPartition]) -> PlantedFault:
    """Move a record to another partition."""
    number, here = _any_record(random, made)
    other = random.choice([one for one in range(len(made)) if one != number])
    content = made[number].target.pop(made[number].copies[here])
    there = random.randint(min(made[other].target) + 1, made[other].end)
    made[other].insert(there, content)
    places = {(Verdict.MISSING, number, here, -1), (Verdict.FOREIGN, other, -1, there)}
    return PlantedFault("move", places, counts={Verdict.MISSING: 1, Verdict.FOREIGN: 1})


def truncate(random: Random, made: list[PlantedPartition]) -> PlantedFault:
    """Cut off the end of the destination log."""
    number = random.randrange(len(made))
    part = made[number]
    here = random.choice(list(part.copies))
    lost = [one for one in part.copies if one >= here]
    part.target = {at: one for at, one in part.target.items() if at < part.copies[here]}
    places = {(Verdict.MISSING, number, here, -1)}
    return PlantedFault("truncate", any_of=places, counts={Verdict.MISSING: len(lost)})


def recreate(random: Random, made: list[PlantedPartition]) -> PlantedFault:
    """Delete the destination topic, and create it again without records."""
    for part in made:
        part.target = {}
    places = {(Verdict.MISSING, number, min(part.copies), -1) for number, part in enumerate(made)}
    lost = sum(len(part.copies) for part in made)
    return PlantedFault("recreate", any_of=places, counts={Verdict.MISSING: lost})


def stranger(random: Random, made: list[PlantedPartition]) -> PlantedFault:
    """Write a record that the source never had."""
    number = random.randrange(len(made))
    there = random.randint(min(made[number].target) + 1, made[number].end)
    made[number].insert(there, (BEGUN_MS, b"stranger", b"stranger", []))
    places = {(Verdict.FOREIGN, number, -1, there)}
    return PlantedFault("stranger", places, counts={Verdict.FOREIGN: 1})


def _any_record(random: Random, made: list[PlantedPartition]) -> tuple[int, int]:
    number = random.randrange(len(made))
    return number, random.choice(made[number].unique())


FAULTS: Final[tuple[Callable[[Random, list[PlantedPartition]], PlantedFault], ...]] = (
    drop,
    duplicate,
    alter,
    reorder,
    move,
    truncate,
    recreate,
    stranger,
)
