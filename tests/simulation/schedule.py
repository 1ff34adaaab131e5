"""Schedules of faults between two clusters, generated from a seed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from random import Random
from typing import Final

from mirror.model.datastreams.policy import CopyPath, CopyPolicy, Guarantee, OnLoss, OnRejection
from tests.fakes.broker.faults import Code, Cut, Delay, Drop, Fault, Throttle

FETCH, PRODUCE, LIST_OFFSETS, METADATA = 1, 0, 2, 3
FIND_COORDINATOR, INIT, ADD, END = 10, 22, 24, 26
OFFSET_COMMIT, DESCRIBE_CONFIGS = 8, 32


class EventKind(Enum):
    """Kinds of events. Failures of brokers end after `Event.seconds`."""

    WRITE = "records"
    TRANSACTION = "a transaction"
    MOVE_LEADER = "another leader"
    BROKER_DOWN = "a broker dies"
    BROKER_FROZEN = "a broker freezes"
    FAULT = "a fault"
    CONNECTIONS_BREAK = "connections break"
    REPLICAS_LAG = "replicas lag"
    FORGET_SESSIONS = "fetch sessions are forgotten"
    SLOW_MARKERS = "markers take their time"
    MOVE_COORDINATORS = "other coordinators"
    DELETE_RECORDS = "the source deletes records"
    CRASH = "the engine is killed"
    HANDOVER = "the engine hands over"
    FREEZE = "the engine freezes, another one takes over, and it wakes"
    PROGRESS = "a checkpoint meets a fault"
    UNDECODABLE = "a batch that cannot be decoded"
    OVERSIZED = "a batch that opens into too much"
    COMPACTION = "compaction leaves a part of a batch"
    UNCLEAN_ELECTION = "an unclean election"
    RECREATION = "the topic is created again"


@dataclass(frozen=True)
class Event:
    """Event at `at` seconds from the start, on the source or, without `on_source`, on the destination.

    `choice` selects one of the existing objects; `fault` is planted for `count` requests with the key `api`.
    """

    at: float
    what: EventKind
    on_source: bool = True
    choice: int = 0
    seconds: float = 0.0
    count: int = 1
    api: int = 0
    fault: Fault | None = None

    def __str__(self) -> str:
        where = "source" if self.on_source else "destination"
        shown = f" {self.fault} for {self.count} of api {self.api}" if self.fault is not None else ""
        return f"{self.at:7.3f} s {where:11} {self.what.value}{shown} ({self.choice}, {self.seconds:.2f} s)"


@dataclass(frozen=True)
class Plan:
    """One run. `pace`: longest transit time of a request or response, in seconds.

    `is_tight`: the engine has room for only a few batches; `is_near`: it reads from the replica in its rack;
    `is_far`: it is far away from both clusters, reads ahead, writes a partition on several connections,
    and has a backlog at its start.
    """

    seed: int
    brokers: int
    partitions: int
    transaction_level: int
    policy: CopyPolicy
    pace: float
    is_tight: bool
    is_near: bool
    is_far: bool
    events: Sequence[Event]

    def __str__(self) -> str:
        head = f"seed {self.seed}: {self.brokers} brokers, {self.partitions} partitions, {self.policy}, "
        tight = (", tight" if self.is_tight else "") + (", near" if self.is_near else "")
        tight += ", far" if self.is_far else ""
        lines = "\n".join(str(event) for event in self.events)
        return f"{head}transaction.version {self.transaction_level}, pace {self.pace:.3f} s{tight}\n{lines}"


SPAN_SECONDS: Final = 12.0
_UNREADABLE_SHARE: Final = 0.6
"""Share of plans with batches that cannot be decoded, or that are compacted."""
_Make = Callable[[Random, float], Event]


def plan(seed: int) -> Plan:
    """Return the plan of that seed, always the same."""
    random, unreadable = Random(seed), Random(f"{seed}, batches")
    loses = random.random() < 0.3
    policy = CopyPolicy(
        path=random.choice([CopyPath.AUTO, CopyPath.AUTO, CopyPath.RECORD]),
        guarantee=random.choice(
            [Guarantee.EFFECTIVELY_ONCE, Guarantee.EXACTLY_ONCE, Guarantee.AT_LEAST_ONCE]
            + 2 * [Guarantee.EFFECTIVELY_ONCE, Guarantee.EXACTLY_ONCE]
        ),
        on_loss=OnLoss.CONTINUE if loses else OnLoss.HALT,
        on_rejection=unreadable.choice(list(OnRejection)),
    )
    events = [_write(random, random.uniform(0, SPAN_SECONDS)) for _ in range(random.randint(6, 16))]
    makers = _FAULTS + (3 * _LOSSES if loses else [])
    events += [
        random.choice(makers)(random, random.uniform(0, SPAN_SECONDS)) for _ in range(random.randint(2, 10))
    ]
    if unreadable.random() < _UNREADABLE_SHARE:
        events += [
            _batch(unreadable, unreadable.uniform(0, SPAN_SECONDS)) for _ in range(unreadable.randint(1, 5))
        ]
    return Plan(
        seed,
        brokers=random.randint(1, 3),
        partitions=random.randint(1, 3),
        transaction_level=random.choice([0, 2]),
        policy=policy,
        pace=random.choice([0.0, 0.002, 0.02, 0.1]),
        is_tight=random.random() < 0.3,
        is_near=random.random() < 0.3,
        is_far=random.random() < 0.3,
        events=sorted(events, key=lambda event: event.at),
    )


def _write(random: Random, at: float) -> Event:
    what = random.choice([EventKind.WRITE, EventKind.WRITE, EventKind.TRANSACTION])
    return Event(
        at, what, choice=random.randrange(1000), count=random.randint(1, 12), seconds=random.uniform(0, 3)
    )


def _batch(random: Random, at: float) -> Event:
    what = random.choice(
        [EventKind.UNDECODABLE, EventKind.OVERSIZED, EventKind.COMPACTION, EventKind.COMPACTION]
    )
    seconds = random.choice([0.5, 3.0, 10.0])
    return Event(at, what, True, random.randrange(1000), seconds, random.randint(1, 8))


def _leader(random: Random, at: float) -> Event:
    return Event(at, EventKind.MOVE_LEADER, random.random() < 0.5, random.randrange(1000))


def _broker(random: Random, at: float) -> Event:
    what = random.choice([EventKind.BROKER_DOWN, EventKind.BROKER_FROZEN])
    seconds = random.choice([0.2, 2.0, 8.0, 20.0, 45.0])
    return Event(at, what, random.random() < 0.5, random.randrange(1000), seconds)


def _connections(random: Random, at: float) -> Event:
    return Event(at, EventKind.CONNECTIONS_BREAK, random.random() < 0.5, random.randrange(1000))


def _lagging(random: Random, at: float) -> Event:
    seconds = random.choice([0.1, 1.0, 9.0, 15.0])
    return Event(at, EventKind.REPLICAS_LAG, random.random() < 0.3, random.randrange(1000), seconds)


def _fetching(random: Random, at: float) -> Event:
    api = random.choice([FETCH, FETCH, FETCH, LIST_OFFSETS, METADATA])
    codes = [Code(one) for one in (3, 5, 6, 9, 56, 74, 75, 78, -1)]
    ways: list[Fault] = [
        Drop(),
        Drop(applied=True),
        Cut(random.randrange(200)),
        _delay(random),
        _throttle(random),
    ]
    fault = random.choice([*ways, *codes] if api == FETCH else ways)
    return Event(at, EventKind.FAULT, True, count=random.randint(1, 3), api=api, fault=fault)


def _producing(random: Random, at: float) -> Event:
    codes = [Code(one, applied=applied) for one in (3, 5, 6, 7, 19, 20, 56) for applied in (False, True)]
    ways: list[Fault] = [
        Drop(),
        Drop(applied=True),
        Cut(random.randrange(80)),
        _delay(random),
        _throttle(random),
    ]
    fault = random.choice([*ways, *ways, *codes])
    return Event(at, EventKind.FAULT, False, count=random.randint(1, 3), api=PRODUCE, fault=fault)


def _coordinating(random: Random, at: float) -> Event:
    api = random.choice([FIND_COORDINATOR, INIT, ADD, END])
    codes = [Code(one) for one in ((14, 15) if api == FIND_COORDINATOR else (14, 15, 16, 51))]
    ways: list[Fault] = [Drop(), Drop(applied=True), _delay(random)]
    fault = random.choice([*codes, *ways])
    return Event(at, EventKind.FAULT, False, count=random.randint(1, 3), api=api, fault=fault)


def _delay(random: Random) -> Delay:
    return Delay(random.choice([0.05, 0.5, 3.0, 25.0]), applied=random.random() < 0.5)


def _throttle(random: Random) -> Throttle:
    return Throttle(random.choice([10, 500, 4000]))


def _sessions(random: Random, at: float) -> Event:
    return Event(at, EventKind.FORGET_SESSIONS, True, random.randrange(1000))


def _markers(random: Random, at: float) -> Event:
    return Event(at, EventKind.SLOW_MARKERS, False, seconds=random.choice([0.01, 0.2, 1.5]))


def _coordinators(random: Random, at: float) -> Event:
    return Event(at, EventKind.MOVE_COORDINATORS, False, random.randrange(1000))


def _crash(random: Random, at: float) -> Event:
    return Event(at, EventKind.CRASH, choice=random.randrange(60))


def _freeze(random: Random, at: float) -> Event:
    return Event(
        at, EventKind.FREEZE, choice=random.randrange(60), seconds=random.choice([0.1, 1.0, 4.0, 12.0])
    )


def _progress(random: Random, at: float) -> Event:
    ways: list[Fault] = [Drop(), Drop(applied=True), Code(7), Code(7, applied=True), _delay(random)]
    return Event(
        at, EventKind.PROGRESS, False, count=random.randint(1, 3), api=PRODUCE, fault=random.choice(ways)
    )


def _unclean(random: Random, at: float) -> Event:
    return Event(at, EventKind.UNCLEAN_ELECTION, random.random() < 0.6, random.randrange(1000))


def _unclean_there(random: Random, at: float) -> Event:
    return Event(at, EventKind.UNCLEAN_ELECTION, False, random.randrange(1000))


def _recreation(random: Random, at: float) -> Event:
    return Event(at, EventKind.RECREATION, random.random() < 0.6)


def _handover(_random: Random, at: float) -> Event:
    return Event(at, EventKind.HANDOVER)


def _delete(random: Random, at: float) -> Event:
    return Event(at, EventKind.DELETE_RECORDS, True, random.randrange(1000))


_FAULTS: Final[list[_Make]] = [
    _leader,
    _leader,
    _broker,
    _connections,
    _lagging,
    _fetching,
    _fetching,
    _producing,
    _producing,
    _coordinating,
    _sessions,
    _markers,
    _coordinators,
    _crash,
    _crash,
    _handover,
    _freeze,
    _progress,
    _progress,
]
_LOSSES: Final[list[_Make]] = [_delete, _unclean, _unclean_there, _unclean_there, _recreation]
"""Events that lose records, for a mirror that continues after losses."""
