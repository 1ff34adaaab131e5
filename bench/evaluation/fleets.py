"""The two fleets compared, which differ in load provider and number of tasks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bench.evaluation.rates import LOWEST_SHARE, PEAK, TOPICS, USABLE
from tests.running import RunningInstance

WEIGHTS: Final = (1, 1, 2, 2)
"""Weight of each instance of a fleet: some hosts are twice as large as others."""
HEADROOM: Final = 0.2
_EVEN: Final = sum(WEIGHTS)
FIXED_TASKS: Final = math.ceil(PEAK / (1 - HEADROOM) / USABLE / _EVEN) * _EVEN
"""Tasks needed for the peak at 20 % headroom if the load were even, in equal numbers for each weight."""
FEWEST_TASKS: Final = max(_EVEN, math.floor(PEAK * LOWEST_SHARE / USABLE))
MOST_TASKS: Final = 2 * FIXED_TASKS


@dataclass(frozen=True, slots=True)
class Kind:
    """Type of fleet, `control` or `candidate`: load provider and task limits."""

    name: str
    provider: str
    limits: Mapping[str, int]


CONTROL: Final = Kind("control", "none", {"min_tasks": FIXED_TASKS, "max_tasks": FIXED_TASKS})
CANDIDATE: Final = Kind("candidate", "pinot", {"min_tasks": FEWEST_TASKS, "max_tasks": MOST_TASKS})
KINDS: Final = (CONTROL, CANDIDATE)


@dataclass
class Fleet:
    """Running service of one of the two fleets, with one datastream of the same name."""

    kind: Kind
    instances: list[RunningInstance] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Name of the fleet and of its datastream."""
        return self.kind.name

    @property
    def environment(self) -> Mapping[str, str]:
        """Environment variables for commands that call this fleet."""
        return self.instances[0].environment

    def start(self, config: Path, folder: Path) -> None:
        """Start the instances of the fleet. They share only the servers with the other fleet."""
        environment = {
            "HEADRACE_CONFIG": str(config),
            "HEADRACE_ZOOKEEPER__ROOT": f"/{self.name}",
            "HEADRACE_MIRROR__PROGRESS_TOPIC": f"progress-{self.name}",
            "HEADRACE_MIRROR__EVENTS_TOPIC": f"events-{self.name}",
            "HEADRACE_MONITOR__INCIDENTS_TOPIC": f"incidents-{self.name}",
            "HEADRACE_MIRROR__LEADER__LOAD_PROVIDER": self.kind.provider,
        }
        for number, weight in enumerate(WEIGHTS, start=1):
            more = {"HEADRACE_MIRROR__INSTANCE_WEIGHT": str(weight)}
            instance = RunningInstance(f"{self.name}-{number}", folder, environment | more)
            self.instances.append(instance)
            instance.start()

    def create(self) -> None:
        """Create the fleet's datastream."""
        self.instances[0].rest.post(
            "/v1/datastreams",
            {
                "name": self.name,
                "source": {"cluster": "source", "topics": "|".join(TOPICS)},
                "destination": {"cluster": "destination", "name": f"{self.name}.*"},
                "limits": dict(self.kind.limits),
                "metadata": {"owner": "bench"},
            },
        )

    @property
    def weights(self) -> dict[str, float]:
        """Map each instance to its placement weight."""
        return {one.name: float(weight) for one, weight in zip(self.instances, WEIGHTS, strict=True)}

    def plan(self) -> dict[str, Any]:
        """Return the current plan of the fleet."""
        found: dict[str, Any] = self.instances[0].rest.get("/v1/plan")
        return found

    def copied(self) -> int:
        """Return the number of source records that the fleet has accounted for."""
        rows = self.instances[0].rest.get(f"/v1/datastreams/{self.name}/progress")
        return sum(row["next_offset"] or 0 for row in rows)

    def stop(self) -> None:
        """Stop all instances of the fleet, whatever their state."""
        for instance in self.instances:
            instance.stop()
