"""Which host would run which task, for the what-if: spread as the service spreads tasks over instances."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mirror.coordination.membership import LiveInstance
from mirror.coordination.spread import TaskLoad, spread_tasks
from mirror.errors import InvalidRequest
from mirror.model.identifiers import InstanceName, TaskName

_IMBALANCE: Final = 1.05


@dataclass(frozen=True, slots=True)
class Host:
    """`weight`: its strength against the others, above 0."""

    name: str
    weight: float = 1.0


def place_tasks(loads: Mapping[str, float], hosts: Sequence[Host]) -> dict[str, list[str]]:
    """The tasks of every host, both sorted by name. `loads`: bytes/s by task, of any number of datastreams.

    Equal input in any order gives an equal answer. Raises InvalidRequest that names the culprit.
    """
    _refuse_impossible(hosts)
    instances = [
        LiveInstance(InstanceName(host.name), number, host.name, 0, "", host.weight)
        for number, host in enumerate(sorted(hosts, key=lambda host: host.name))
    ]
    tasks = [TaskLoad(TaskName(task), load, None) for task, load in sorted(loads.items())]
    homes = spread_tasks(tasks, instances, _IMBALANCE)
    return {one.name: sorted(task for task, home in homes.items() if home == one.name) for one in instances}


def _refuse_impossible(hosts: Sequence[Host]) -> None:
    if not hosts:
        raise InvalidRequest("there is no host to place tasks on")
    names = Counter(host.name for host in hosts)
    for host in hosts:
        if names[host.name] > 1:
            raise InvalidRequest(f"host {host.name} appears twice")
        if not host.name or not (math.isfinite(host.weight) and host.weight > 0):
            raise InvalidRequest(f"the weight of host {host.name!r} is {host.weight}; it must be above 0")
