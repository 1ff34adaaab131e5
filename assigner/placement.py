"""Which host runs which task: sticky, by load and by weight of the host. Pure.

The same rule as for partitions, one floor up: a host holds at most ceil(tasks * its share of the
weights) tasks; what is homeless goes, heaviest first, to the host that is lightest for its weight;
the fullest host gives up or swaps a task with the lightest as long as it stands above the level by
more than the tolerance.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from mirror.errors import InvalidRequest


@dataclass(frozen=True, slots=True)
class Host:
    """`weight`: its strength against the others, above 0."""

    name: str
    weight: float = 1.0


@dataclass(frozen=True)
class HostPlan:
    """`host_of`: by task. `shares`: load over weight by host. `moved`: tasks that change host.

    `level`: load over weight if everything could be poured like water; no plan has a lower maximum.
    """

    host_of: Mapping[str, str]
    shares: Mapping[str, float]
    moved: tuple[str, ...]
    level: float


def place_tasks(
    loads: Mapping[str, float],
    hosts: Sequence[Host],
    current: Mapping[str, str] | None = None,
    tolerance: float = 0.05,
) -> HostPlan:
    """A host for every task. `loads`: bytes/s by task, of any number of datastreams together.

    Equal input in any order gives an equal plan. Raises InvalidRequest that names the culprit.
    """
    _refuse_impossible(loads, hosts)
    current = current or {}
    rooms = _rooms(loads, hosts)
    homeless = []
    for task in _heaviest_first(loads, loads):
        room = rooms.get(current.get(task, ""))
        if room is None:
            homeless.append(task)
        else:
            room.take(task)
    for room in rooms.values():
        homeless.extend(room.give_up_surplus())
    for task in _heaviest_first(homeless, loads):
        places = [room for room in rooms.values() if room.has_place()]
        min(places, key=lambda room: room.share_with(loads[task])).take(task)
    level = math.fsum(loads.values()) / math.fsum(host.weight for host in hosts)
    _level(list(rooms.values()), level * (1 + tolerance), 4 * len(loads))
    host_of = {task: room.host.name for room in rooms.values() for task in room.tasks}
    moved = tuple(sorted(task for task, host in host_of.items() if current.get(task, host) != host))
    shares = {room.host.name: room.share() for room in rooms.values()}
    return HostPlan(dict(sorted(host_of.items())), shares, moved, level)


class _Room:
    """One host and what it would run."""

    def __init__(self, host: Host, most: int, loads: Mapping[str, float]) -> None:
        self.host = host
        self.most = most
        self.loads = loads
        self.tasks: set[str] = set()
        self.load = 0.0

    def share(self) -> float:
        return self.load / self.host.weight

    def has_place(self) -> bool:
        return len(self.tasks) < self.most

    def take(self, task: str) -> None:
        self.tasks.add(task)
        self.load = math.fsum(self.loads[one] for one in self.tasks)

    def give(self, task: str) -> None:
        self.tasks.remove(task)
        self.load = math.fsum(self.loads[one] for one in self.tasks)

    def give_up_surplus(self) -> list[str]:
        """The lightest tasks above the number that this host may hold."""
        surplus = _heaviest_first(self.tasks, self.loads)[self.most :]
        for task in surplus:
            self.give(task)
        return surplus

    def share_with(self, load: float) -> tuple[float, str]:
        return (self.load + load) / self.host.weight, self.host.name


def _rooms(loads: Mapping[str, float], hosts: Sequence[Host]) -> dict[str, _Room]:
    total = math.fsum(host.weight for host in hosts)
    return {
        host.name: _Room(host, math.ceil(len(loads) * host.weight / total - 1e-9), loads)
        for host in sorted(hosts, key=lambda host: host.name)
    }


def _heaviest_first(tasks: Iterable[str], loads: Mapping[str, float]) -> list[str]:
    return sorted(tasks, key=lambda task: (-loads[task], task))


def _level(rooms: list[_Room], goal: float, steps: int) -> None:
    for _ in range(steps):
        fullest = max(rooms, key=lambda room: (room.share(), room.host.name))
        lightest = min(rooms, key=lambda room: (room.share(), room.host.name))
        exchange = _best_exchange(fullest, lightest) if fullest.share() > goal else None
        if exchange is None:
            return
        given, back = exchange
        for task in given:
            fullest.give(task)
        for task in back:
            lightest.give(task)
            fullest.take(task)
        for task in given:
            lightest.take(task)


def _best_exchange(full: _Room, light: _Room) -> tuple[list[str], list[str]] | None:
    """The move, or the swap of two, that leaves the lower maximum of both; None: none lowers it."""
    best: tuple[float, list[str], list[str]] = (full.share() * (1 - 1e-9), [], [])
    backs: list[list[str]] = [[task] for task in _heaviest_first(light.tasks, light.loads)]
    if light.has_place():
        backs.insert(0, [])
    for given in _heaviest_first(full.tasks, full.loads):
        for back in backs:
            change = full.loads[given] - sum(light.loads[task] for task in back)
            higher = max((full.load - change) / full.host.weight, (light.load + change) / light.host.weight)
            if higher < best[0]:
                best = higher, [given], back
    return (best[1], best[2]) if best[1] else None


def _refuse_impossible(loads: Mapping[str, float], hosts: Sequence[Host]) -> None:
    if not hosts:
        raise InvalidRequest("there is no host to place tasks on")
    names = Counter(host.name for host in hosts)
    for host in hosts:
        if names[host.name] > 1:
            raise InvalidRequest(f"host {host.name} appears twice")
        if not host.name or not (math.isfinite(host.weight) and host.weight > 0):
            raise InvalidRequest(f"the weight of host {host.name!r} is {host.weight}; it must be above 0")
    for task, load in loads.items():
        if not (math.isfinite(load) and load >= 0):
            raise InvalidRequest(f"the load of task {task} is {load}")
