"""Exhaustive test of handover in small worlds: every interleaving of steps of instances and the leader.

A world has a few instances, a few lanes and a sequence of plans. An instance runs the cycle of the follower:
join, read the plan (or find nothing new), stop revoked lanes, announce its state, list the members, read what
each holds, and start lanes that are free. Lanes drain and the leader publishes at any time, and sessions are
lost. Every reachable state is visited.

Safety: no lane runs on two instances with live sessions. Liveness: from every state, once all plans are
published and no faults remain, all instances run what the last plan assigns.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterator
from functools import lru_cache
from random import Random
from typing import NamedTuple

import pytest

from mirror.coordination.reconcile import InstanceView, LaneDuties, duties, lane_specs, starts
from mirror.coordination.stores.membership import Holding
from mirror.model.datastreams.lanes import LaneKey, LaneSpec
from mirror.model.identifiers import GroupName, InstanceName, TaskName
from mirror.model.plan import Plan, TaskPlacement
from mirror.model.topics import TopicPartition
from tests.builders import a_datastream, a_plan

GROUP = GroupName("g")
DATASTREAMS = (a_datastream("g"),)
AWAY, JOINED, READ, ANNOUNCE, LIST, LOOK, ACT = range(7)
Running = frozenset[tuple[LaneKey, LaneSpec]]
Home = tuple[int, int]
"""Home of a lane in a plan: number of the instance, and index of the task there."""
Homes = tuple[Home, ...]
"""A plan: the home of each lane."""


class Member(NamedTuple):
    """One instance. `holding`: its znode, None if missing. `seen`: last state read of others."""

    doing: int = JOINED
    has_session: bool = True
    plan: int = 0
    holding: Holding | None = None
    running: Running = frozenset()
    stopping: frozenset[LaneKey] = frozenset()
    seen: tuple[tuple[int, Holding | None], ...] = ()
    to_read: tuple[int, ...] = ()


class World(NamedTuple):
    """State of a world.

    `in_force`: number of published plans. `losses`: number of sessions that may still be lost.
    """

    in_force: int
    losses: int
    members: tuple[Member, ...]


def instance(number: int) -> InstanceName:
    return InstanceName(f"i{number}")


class WorldMoves:
    """The moves of one world. `coarse`: an instance reads the state of all others in one step."""

    def __init__(self, plans: tuple[Homes, ...], coarse: bool) -> None:
        self.coarse = coarse
        self.plans = (a_plan(epoch=0), *(_plan(number, homes) for number, homes in enumerate(plans, 1)))
        self.decide = lru_cache(maxsize=None)(self._decide)

    def _decide(self, number: int, member: Member) -> LaneDuties:
        plan = self.plans[member.plan]
        return duties(
            InstanceView(
                epoch=plan.epoch,
                desired=lane_specs(plan, instance(number), DATASTREAMS).specs,
                running=dict(member.running),
                stopping=member.stopping,
            )
        )

    def moves(self, world: World) -> Iterator[World]:
        """Yield every state that one step leads to."""
        if world.in_force + 1 < len(self.plans):
            yield world._replace(in_force=world.in_force + 1)
        for number, member in enumerate(world.members):
            for changed in self.steps(world, number, member):
                yield _with(world, number, changed)
            if world.losses and member.doing is not AWAY and member.has_session:
                lost = member._replace(has_session=False, holding=None)
                yield _with(world, number, lost)._replace(losses=world.losses - 1)

    def steps(self, world: World, number: int, member: Member) -> Iterator[Member]:
        """Yield the next states of one instance; a drained lane is noticed at the start of a round."""
        if member.doing is AWAY:
            yield Member()
        elif member.doing is ACT:
            yield self._act(number, member)
        elif not member.has_session:
            yield Member(doing=AWAY)
        else:
            yield self._ask(world, number, member)
            if member.doing is READ:
                if not self.coarse:  # woken by another event than a new plan
                    yield self._stop(number, member)
                for key in member.stopping:
                    yield member._replace(
                        running=frozenset(one for one in member.running if one[0] != key),
                        stopping=member.stopping - {key},
                    )

    def _ask(self, world: World, number: int, member: Member) -> Member:
        if member.doing is JOINED:
            return member._replace(doing=READ, holding=Holding())
        if member.doing is READ:
            return self._stop(number, member._replace(plan=world.in_force))
        if member.doing is ANNOUNCE:
            return member._replace(doing=LIST, holding=self.decide(number, member).holding)
        if member.doing is LIST:
            return member._replace(doing=LOOK, to_read=_others(world, number))
        now, later = (member.to_read, ()) if self.coarse else (member.to_read[:1], member.to_read[1:])
        seen = (*member.seen, *((other, world.members[other].holding) for other in now))
        return member._replace(doing=LOOK if later else ACT, seen=seen, to_read=later)

    def _stop(self, number: int, member: Member) -> Member:
        stop = self.decide(number, member._replace(doing=READ, holding=None)).stop
        return member._replace(doing=ANNOUNCE, stopping=member.stopping | frozenset(stop))

    def _act(self, number: int, member: Member) -> Member:
        missing = self.decide(number, member._replace(doing=READ, holding=None)).missing
        others = {instance(other): holding for other, holding in member.seen}
        found = starts(missing, self.plans[member.plan].epoch, others)
        running = member.running | {(spec.key, spec) for spec in found.start}
        return member._replace(doing=READ, running=running, seen=())

    def is_settled(self, world: World) -> bool:
        """Return whether all instances run exactly their lanes of the last plan."""
        last = self.plans[-1]
        for number, member in enumerate(world.members):
            wanted = {
                LaneKey(task.group, partition): task.task
                for task in last.of_instance(instance(number))
                for partition in task.partitions
            }
            if member.stopping or {key: spec.task for key, spec in member.running} != wanted:
                return False
        return world.in_force == len(self.plans) - 1

    def settles(self, world: World) -> bool:
        """Return whether all instances reach that state, running in turn without further faults."""
        world = world._replace(in_force=len(self.plans) - 1)
        for _ in range(12):
            for number in range(len(world.members)):
                world = self._round(world, number)
            if self.is_settled(world):
                return True
        return False

    def _round(self, world: World, number: int) -> World:
        for _ in range(12):
            member = world.members[number]
            *_, last = self.steps(world, number, member)  # a lane that can drain drains
            if member.doing is READ and not member.stopping:
                last = self._ask(world, number, member)
            world = _with(world, number, last)
            if last.doing is READ and not last.stopping and member.doing is ACT:
                break
        return world


def _plan(number: int, homes: Homes) -> Plan:
    held: dict[Home, set[TopicPartition]] = {}
    for lane, home in enumerate(homes):
        held.setdefault(home, set()).add(TopicPartition("t", lane))
    tasks = [
        TaskPlacement(TaskName(f"g-{owner}-{task}"), GROUP, instance(owner), frozenset(lanes))
        for (owner, task), lanes in sorted(held.items())
    ]
    return a_plan(*tasks, epoch=number)


def _others(world: World, number: int) -> tuple[int, ...]:
    return tuple(
        other
        for other, member in enumerate(world.members)
        if other != number and member.doing is not AWAY and member.has_session
    )


def _with(world: World, number: int, member: Member) -> World:
    members = (*world.members[:number], member, *world.members[number + 1 :])
    return world._replace(members=members)


def owners(world: World) -> dict[LaneKey, list[int]]:
    """Return the instances with a live session that copy each lane."""
    found: dict[LaneKey, list[int]] = {}
    for number, member in enumerate(world.members):
        if member.has_session:
            for key, _ in member.running:
                found.setdefault(key, []).append(number)
    return found


def check(game: WorldMoves, world: World) -> None:
    """Check the two rules of the module."""
    assert all(len(found) == 1 for found in owners(world).values()), world
    if all(member.doing in {AWAY, READ} for member in world.members):
        assert game.settles(world), world


def explore(game: WorldMoves, start: World) -> int:
    """Visit every state and return their number."""
    known = {start}
    waiting = deque([start])
    while waiting:
        world = waiting.popleft()
        check(game, world)
        for following in game.moves(world):
            if following not in known:
                known.add(following)
                waiting.append(following)
    return len(known)


def sequences(length: int, choices: list[Homes]) -> list[tuple[Homes, ...]]:
    """Return sequences of distinct consecutive plans whose first one places lane 0 on instance 0."""
    return [
        plans
        for plans in itertools.product(choices, repeat=length)
        if plans[0][0] == (0, 0) and all(one != two for one, two in itertools.pairwise(plans))
    ]


ONE_LANE = sequences(3, [((0, 0),), ((1, 0),), ((0, 1),)])
TWO_LANES = sequences(2, list(itertools.product([(0, 0), (1, 0)], repeat=2)))


@pytest.mark.deep
@pytest.mark.parametrize("plans", ONE_LANE + TWO_LANES, ids=str)
def test_two_instances_of_which_one_may_lose_its_session(plans: tuple[Homes, ...]) -> None:
    start = World(0, 1, (Member(), Member()))
    assert explore(WorldMoves(plans, coarse=False), start) > 3_000


def test_three_instances_of_which_one_only_looks_on() -> None:
    plans = (((0, 0),), ((1, 0),))
    ready = Member(doing=READ, holding=Holding())
    assert explore(WorldMoves(plans, coarse=True), World(0, 0, (ready, ready, ready))) > 3_000


@pytest.mark.parametrize("seed", range(12))
def test_three_instances_on_random_walks(seed: int) -> None:
    random = Random(seed)
    for _ in range(40):
        plans = tuple(tuple((random.randrange(3), 0) for _ in range(3)) for _ in range(4))
        game, world = WorldMoves(plans, coarse=False), World(0, 2, (Member(), Member(), Member()))
        for _ in range(150):
            world = random.choice(list(game.moves(world)))
            check(game, world)
