"""Datastreams of a run: every guarantee, a group, a prefix, and topics that grow or are recreated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from mirror.model.datastreams.metadata import TASK_PREFIX

GUARANTEE: Final = "headrace.guarantee"


@dataclass(frozen=True)
class Style:
    """Kind of records in a topic. `is_transactional`: in transactions, some aborted."""

    codec: str = "none"
    is_transactional: bool = False


@dataclass(frozen=True)
class Tenant:
    """Datastream of one topic, and the style of its records."""

    name: str
    topic: str
    partitions: int
    style: Style
    metadata: Mapping[str, str] = field(default_factory=dict)
    naming: str = "*"
    audit: str = "full"

    @property
    def copy(self) -> str:
        """Name of the topic at the destination."""
        return self.naming.replace("*", self.topic)

    @property
    def may_repeat(self) -> bool:
        """Return whether its guarantee allows duplicates."""
        return self.metadata.get(GUARANTEE) == "at-least-once"

    def definition(self) -> dict[str, Any]:
        """Return the body of the request that creates it."""
        return {
            "name": self.name,
            "source": {"cluster": "source", "topics": self.topic},
            "destination": {"cluster": "destination", "name": self.naming},
            "limits": {"min_tasks": 2},
            "audit": self.audit,
            # Datastreams with shared tasks need the same owner.
            "metadata": {"owner": f"team {self.metadata.get(TASK_PREFIX, self.name)}", **self.metadata},
        }


@dataclass(frozen=True)
class Participants:
    """All tenants of a run. `growing` gets partitions, `reborn` is deleted and recreated."""

    tenants: tuple[Tenant, ...]
    growing: Tenant
    reborn: Tenant


def make_cast(run: str) -> Participants:
    """Return datastreams and topics with names that are unique to the run."""

    def tenant(name: str, partitions: int, style: Style, naming: str = "*", **metadata: str) -> Tenant:
        dotted = {key.replace("__", "-").replace("_", "."): value for key, value in metadata.items()}
        return Tenant(f"{run}-{name}", f"{run}.{name}", partitions, style, dotted, naming)

    group = f"{run}-pair"
    growing = tenant("renamed", 2, Style("snappy"), naming="copy.*")
    reborn = tenant("reborn", 2, Style("lz4"), headrace_on__loss="continue")
    fixed = (
        tenant("repeating", 3, Style("lz4"), headrace_guarantee="at-least-once"),
        tenant("effective", 3, Style("gzip", is_transactional=True)),
        tenant("exact", 3, Style("zstd"), headrace_guarantee="exactly-once"),
        tenant(
            "exact-transactions",
            2,
            Style("none", is_transactional=True),
            headrace_guarantee="exactly-once",
        ),
        Tenant(f"{run}-pair-a", f"{run}.pair.a", 2, Style("none"), {TASK_PREFIX: group}),
        Tenant(f"{run}-pair-b", f"{run}.pair.b", 2, Style("lz4"), {TASK_PREFIX: group}, audit="counts"),
    )
    return Participants((*fixed, growing, reborn), growing, reborn)
