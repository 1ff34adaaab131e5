"""Places tasks on hosts for what-if plans, in the same way as the service places tasks on instances."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mirror.coordination.task_balancer import TaskLoad, balance_tasks
from mirror.errors import InvalidRequest
from mirror.model.identifiers import TaskName

_IMBALANCE: Final = 1.05


@dataclass(frozen=True, slots=True)
class Host:
    """A host on which tasks are placed. `weight`: relative capacity, above 0."""

    name: str
    weight: float = 1.0


def place_tasks(loads: Mapping[str, float], hosts: Sequence[Host]) -> dict[str, list[str]]:
    """Return the tasks of every host; hosts and tasks are sorted by name.

    `loads`: bytes/s by task, of any number of datastreams. Equal input in any order gives equal results.
    Raises InvalidRequest that names the invalid host.
    """
    _refuse_impossible(hosts)
    in_order = sorted(hosts, key=lambda host: host.name)
    tasks = [TaskLoad(TaskName(task), load, None) for task, load in sorted(loads.items())]
    homes = balance_tasks(tasks, in_order, _IMBALANCE)
    return {host.name: sorted(task for task, home in homes.items() if home == host.name) for host in in_order}


def _refuse_impossible(hosts: Sequence[Host]) -> None:
    if not hosts:
        raise InvalidRequest("hosts must not be empty: list at least one host")
    names = Counter(host.name for host in hosts)
    for host in hosts:
        if names[host.name] > 1:
            raise InvalidRequest(f"host {host.name} appears twice")
        if not host.name or not (math.isfinite(host.weight) and host.weight > 0):
            raise InvalidRequest(f"the weight of host {host.name!r} is {host.weight}; it must be above 0")
