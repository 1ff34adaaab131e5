"""The two services: what differs between them is the load provider and the number of tasks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bench.evaluation.rates import LOWEST_SHARE, PEAK, TOPICS, USABLE
from tests.running import RunningInstance

INSTANCES: Final = 2
HEADROOM: Final = 0.2
FIXED_TASKS: Final = math.ceil(PEAK / (1 - HEADROOM) / USABLE)
"""What the peak needs with a fifth of each task left free, if every task carried the same."""
FEWEST_TASKS: Final = max(INSTANCES, math.floor(PEAK * LOWEST_SHARE / USABLE))
MOST_TASKS: Final = 2 * FIXED_TASKS


@dataclass(frozen=True, slots=True)
class Kind:
    """`control` or `candidate`: where its loads come from, and its limits."""

    name: str
    provider: str
    limits: Mapping[str, int]


CONTROL: Final = Kind("control", "none", {"min_tasks": FIXED_TASKS, "max_tasks": FIXED_TASKS})
CANDIDATE: Final = Kind("candidate", "pinot", {"min_tasks": FEWEST_TASKS, "max_tasks": MOST_TASKS})
KINDS: Final = (CONTROL, CANDIDATE)


@dataclass
class Fleet:
    """A running service with one datastream, which is named like it."""

    kind: Kind
    instances: list[RunningInstance] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Of the fleet and of its datastream."""
        return self.kind.name

    @property
    def environment(self) -> Mapping[str, str]:
        """With which its commands run, too."""
        return self.instances[0].environment

    def start(self, config: Path, folder: Path) -> None:
        """Start its instances. They share nothing with the other fleet but the servers."""
        environment = {
            "HEADRACE_CONFIG": str(config),
            "HEADRACE_ZOOKEEPER__ROOT": f"/{self.name}",
            "HEADRACE_MIRROR__PROGRESS_TOPIC": f"progress-{self.name}",
            "HEADRACE_MIRROR__EVENTS_TOPIC": f"events-{self.name}",
            "HEADRACE_MONITOR__INCIDENTS_TOPIC": f"incidents-{self.name}",
            "HEADRACE_MIRROR__LEADER__LOAD_PROVIDER": self.kind.provider,
        }
        for number in range(1, INSTANCES + 1):
            instance = RunningInstance(f"{self.name}-{number}", folder, environment)
            self.instances.append(instance)
            instance.start()

    def create(self) -> None:
        """Its datastream."""
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

    def plan(self) -> dict[str, Any]:
        """The plan in force."""
        found: dict[str, Any] = self.instances[0].rest.get("/v1/plan")
        return found

    def copied(self) -> int:
        """Source records that are accounted for."""
        rows = self.instances[0].rest.get(f"/v1/datastreams/{self.name}/progress")
        return sum(row["next_offset"] or 0 for row in rows)

    def stop(self) -> None:
        """End its instances, whatever their state."""
        for instance in self.instances:
            instance.stop()
