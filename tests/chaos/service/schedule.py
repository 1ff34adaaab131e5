"""Schedules of faults, generated from a seed. Pure.

The same seed, length and site give the same schedule. Faults overlap, within limits: a server has one fault
at a time, at most `MOST_AT_ONCE` processes or servers fail at the same time, and every fault ends in time. A
replay has the same faults at the same times, but threads, processes and packets may interleave differently.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

MOST_AT_ONCE: Final = 3
"""Maximum number of concurrent faults of processes and servers, besides actions of operators."""
_PAUSE_SECONDS: Final = 2.0
"""Minimum time between two faults of one server, in which it serves requests."""
_SHARE_OF_LENGTH: Final = 0.35
"""Maximum share of a schedule that a fault takes, unless its kind needs more."""


class Resource(StrEnum):
    """Resource that a fault occupies."""

    INSTANCE = "instance"
    SOURCE = "source"
    DESTINATION = "destination"
    STORE = "store"
    LOG = "log"
    PINOT = "pinot"
    DATASTREAM = "datastream"
    PLACEMENT = "placement"
    GUEST = "guest"
    STRANGER = "stranger"
    SIZE = "size"
    LIFE = "life"
    ATTACKER = "attacker"


class Kind(StrEnum):
    """Kinds of faults of a service, its servers and its datastreams."""

    INSTANCE_KILLED = "instance killed"
    INSTANCE_FROZEN = "instance frozen"
    CONTROL_FROZEN = "control process frozen"
    INSTANCE_RESTARTED = "instance restarted"
    WORKER_KILLED = "worker killed"
    WORKER_FROZEN = "worker frozen"
    SOURCE_KILLED = "source killed"
    SOURCE_FROZEN = "source frozen"
    SOURCE_RESTARTED = "source restarted"
    DESTINATION_KILLED = "destination killed"
    DESTINATION_FROZEN = "destination frozen"
    DESTINATION_RESTARTED = "destination restarted"
    STORE_KILLED = "store killed"
    STORE_FROZEN = "store frozen"
    STORE_RESTARTED = "store restarted"
    LOG_TRIMMED = "log trimmed while an instance is away"
    PINOT_KILLED = "Pinot killed"
    PINOT_FROZEN = "Pinot frozen"
    PARTITIONS_PAUSED = "partitions paused"
    DATASTREAM_PAUSED = "datastream paused"
    REBALANCED = "full rebalance"
    MOVED = "partition moved"
    GUEST_CREATED = "datastream created and deleted"
    HOSTILE_WRITTEN = "hostile definition written"
    TOPIC_GROWN = "topic grown"
    TOPIC_RECREATED = "topic deleted and re-created"
    BULK_CREATED = "datastream of megabytes created"
    GREEDY_SOURCE = "sources announce 1 GiB"
    BROKEN_CREATED = "datastream that cannot run created"


@dataclass(frozen=True, slots=True)
class Rule:
    """Relative frequency of a kind, its duration in seconds, and the resource that it occupies."""

    weight: float
    shortest: float
    longest: float
    resource: Resource


RULES: Final[Mapping[Kind, Rule]] = {
    Kind.INSTANCE_KILLED: Rule(3, 1, 20, Resource.INSTANCE),
    Kind.INSTANCE_FROZEN: Rule(3, 1, 60, Resource.INSTANCE),
    Kind.CONTROL_FROZEN: Rule(2, 1, 30, Resource.INSTANCE),
    Kind.INSTANCE_RESTARTED: Rule(2, 0, 5, Resource.INSTANCE),
    Kind.WORKER_KILLED: Rule(3, 0, 0, Resource.INSTANCE),
    Kind.WORKER_FROZEN: Rule(3, 1, 60, Resource.INSTANCE),
    Kind.SOURCE_KILLED: Rule(2, 0, 20, Resource.SOURCE),
    Kind.SOURCE_FROZEN: Rule(2, 1, 45, Resource.SOURCE),
    Kind.SOURCE_RESTARTED: Rule(1, 0, 5, Resource.SOURCE),
    Kind.DESTINATION_KILLED: Rule(2, 0, 20, Resource.DESTINATION),
    Kind.DESTINATION_FROZEN: Rule(2, 1, 45, Resource.DESTINATION),
    Kind.DESTINATION_RESTARTED: Rule(1, 0, 5, Resource.DESTINATION),
    Kind.STORE_KILLED: Rule(2, 1, 30, Resource.STORE),
    Kind.STORE_FROZEN: Rule(2, 6, 30, Resource.STORE),
    Kind.STORE_RESTARTED: Rule(1, 0, 5, Resource.STORE),
    Kind.LOG_TRIMMED: Rule(2, 0, 10, Resource.LOG),
    Kind.PINOT_KILLED: Rule(1, 1, 30, Resource.PINOT),
    Kind.PINOT_FROZEN: Rule(1, 5, 60, Resource.PINOT),
    Kind.PARTITIONS_PAUSED: Rule(1, 1, 15, Resource.DATASTREAM),
    Kind.DATASTREAM_PAUSED: Rule(1, 1, 15, Resource.DATASTREAM),
    Kind.REBALANCED: Rule(1, 0, 0, Resource.PLACEMENT),
    Kind.MOVED: Rule(1, 0, 0, Resource.PLACEMENT),
    Kind.GUEST_CREATED: Rule(1, 2, 20, Resource.GUEST),
    Kind.HOSTILE_WRITTEN: Rule(1, 1, 20, Resource.STRANGER),
    Kind.TOPIC_GROWN: Rule(0.5, 0, 0, Resource.SIZE),
    Kind.TOPIC_RECREATED: Rule(1, 0, 3, Resource.LIFE),
    Kind.BULK_CREATED: Rule(0.5, 3, 30, Resource.ATTACKER),
    Kind.GREEDY_SOURCE: Rule(0.5, 3, 30, Resource.ATTACKER),
    Kind.BROKEN_CREATED: Rule(0.5, 3, 20, Resource.ATTACKER),
}
"""Rules by kind. A frozen server of the store stays frozen longer than the session timeout of the runs."""
OPERATOR: Final = frozenset(
    {
        Resource.DATASTREAM,
        Resource.PLACEMENT,
        Resource.GUEST,
        Resource.STRANGER,
        Resource.SIZE,
        Resource.LIFE,
        Resource.ATTACKER,
    }
)
"""Resources of actions by operators and tenants, which break nothing."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault, from `at` seconds after the start of the schedule, undone `seconds` later.

    `choice`, from 0 to 1, selects the victim; with `at_leader` it is the leading instance if that is free.
    """

    at: float
    seconds: float
    kind: Kind
    choice: float
    at_leader: bool

    @property
    def ends(self) -> float:
        """Time at which it is undone."""
        return self.at + self.seconds

    @property
    def resource(self) -> Resource:
        """Resource that it occupies."""
        return RULES[self.kind].resource

    def __str__(self) -> str:
        where = " at the leader" if self.at_leader else ""
        return f"{self.at:7.1f} s  {self.kind}{where} for {self.seconds:.1f} s"


@dataclass(frozen=True, slots=True)
class SiteShape:
    """Parts of a site that can fail. `has_log`: the coordination store is a log on Kafka. `mean_pause`:
    seconds from the start of a fault to that of the next."""

    instances: int
    has_pinot: bool = False
    has_log: bool = False
    mean_pause: float = 3.0

    def capacity(self, resource: Resource) -> int:
        """Return the maximum number of faults that may occupy the resource at the same time."""
        if resource is Resource.INSTANCE:
            return self.instances
        is_present = {Resource.PINOT: self.has_pinot, Resource.LOG: self.has_log}
        return int(is_present.get(resource, True))


def make_schedule(seed: int, length: float, shape: SiteShape) -> tuple[Fault, ...]:
    """Return faults in order of their start times; all are undone after at most `length` seconds."""
    numbers = random.Random(seed)
    found: list[Fault] = []
    uses: Counter[Kind] = Counter()
    at = numbers.uniform(0.0, shape.mean_pause)
    while at < length:
        near = [one for one in found if at < one.ends + _PAUSE_SECONDS]
        drafts = [_draft(numbers, kind, at, length) for kind in Kind]
        legal = [draft for draft in drafts if draft.ends <= length and is_legal([*near, draft], shape)]
        if legal:
            weights = [RULES[draft.kind].weight / (1 + uses[draft.kind]) for draft in legal]
            chosen = numbers.choices(legal, weights)[0]
            uses[chosen.kind] += 1
            found.append(chosen)
        at += numbers.expovariate(1 / shape.mean_pause)
    return tuple(found)


def _draft(numbers: random.Random, kind: Kind, at: float, length: float) -> Fault:
    """Return a fault of this kind at this time, which may be illegal."""
    rule = RULES[kind]
    longest = max(rule.shortest, min(rule.longest, length * _SHARE_OF_LENGTH))
    seconds = _between(numbers, rule.shortest, longest)
    choice, at_leader = numbers.random(), rule.resource is Resource.INSTANCE and numbers.random() < 1 / 3
    return Fault(at, seconds, kind, choice, at_leader)


def _between(numbers: random.Random, low: float, high: float) -> float:
    """Return a duration with a uniform logarithm, so that short ones are as likely as long ones."""
    return math.exp(numbers.uniform(math.log1p(low), math.log1p(high))) - 1


def is_legal(faults: Sequence[Fault], shape: SiteShape) -> bool:
    """Return whether the last fault may coexist with the earlier ones."""
    last = faults[-1]
    if shape.capacity(last.resource) == 0:
        return False
    others = [one for one in faults[:-1] if last.at < one.ends + _PAUSE_SECONDS]
    same = sum(one.resource is last.resource for one in others)
    broken = sum(one.resource not in OPERATOR for one in others)
    is_gentle = last.resource in OPERATOR
    return same < shape.capacity(last.resource) and (is_gentle or broken < MOST_AT_ONCE)
