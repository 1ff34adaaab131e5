"""REST paths of resources, conditions that commands wait for, and texts about instances."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from mirror.errors import InvalidRequest
from mirror.model.movement.clock_skew import ClockSkew
from mirror.wording import duration_text

DATASTREAMS: Final = "/v1/datastreams"
LOST_DATASTREAMS: Final = "/v1/lost-datastreams"
GROUPS: Final = "/v1/groups"
OPERATIONS: Final = "/v1/operations"
PLANS: Final = "/v1/plans"
UNKNOWN: Final = "?"
"""Text of an unknown value in a table."""
_MOST_SKEW_MS: Final = 1_000.0
"""Tolerated clock skew in ms. Displayed ages of records are wrong by the skew."""
_ELSEWHERE: Final = frozenset({"", ".", ".."})


class WaitCondition(StrEnum):
    """Condition of a datastream for which a command can wait."""

    READY = "ready"
    RUNNING = "running"
    CAUGHT_UP = "caught-up"
    STOPPED = "stopped"
    DELETED = "deleted"


def path_of(name: str) -> str:
    """Return the REST path of a datastream. If it is damaged, it may have any name. Raises InvalidRequest."""
    return _below(DATASTREAMS, name, "datastream name", "list names with headrace datastream list")


def path_of_consumer_group(name: str, group: str) -> str:
    """Return the REST path of a synchronised consumer group. Raises InvalidRequest."""
    advice = "list names with headrace groups list DATASTREAM"
    return _below(f"{path_of(name)}/consumer-groups", group, "group name", advice)


def path_of_lost(name: str) -> str:
    """Return the REST path of a lost datastream. Raises InvalidRequest."""
    return _below(LOST_DATASTREAMS, name, "datastream name", "list names with headrace datastream lost")


def path_of_group(prefix: str) -> str:
    """Return the REST path of the group of datastreams that share tasks. Raises InvalidRequest."""
    return _below(GROUPS, prefix, "task prefix", "show task prefixes with headrace datastream get")


def path_of_plan(identity: str) -> str:
    """Return the REST path of a computed plan. Raises InvalidRequest."""
    return _below(PLANS, identity, "plan id", "compute a plan with headrace datastream plan")


def _below(folder: str, name: str, what: str, advice: str) -> str:
    """Return the REST path of an item in a collection. Raises InvalidRequest for a name that would lead
    elsewhere."""
    if name in _ELSEWHERE:
        raise InvalidRequest(f"invalid {what} {name!r}", advice=advice)
    return f"{folder}/{quote(name, safe='', errors='surrogatepass')}"


def instance_state(instance: Mapping[str, Any]) -> str:
    """Return the state of an instance for display: healthy, unhealthy, leaving, unreachable or timed out."""
    if instance["health"] is None:
        return str(instance["state"])
    if instance["is_leaving"]:
        return "leaving"
    return "healthy" if instance["health"]["is_well"] else "unhealthy"


def instance_troubles(instance: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for each unhealthy part of an instance, or about its failure to respond."""
    if instance["health"] is None:
        yield instance["reason"] or instance["state"]
        return
    for part, condition in instance["health"]["parts"].items():
        if not condition["is_well"]:
            yield f"{part}: {condition['sentence']}"


def age_text(milliseconds: float | None) -> str:
    """Format the age of a record for a table."""
    return UNKNOWN if milliseconds is None else duration_text(milliseconds / 1_000)


class ClusterSkew(NamedTuple):
    """Largest clock skew that any instance has measured for a cluster's brokers."""

    skew: ClockSkew
    instance: str

    @property
    def is_tolerable(self) -> bool:
        """True if displayed ages of records are wrong by at most one second."""
        return self.skew.least_ms <= _MOST_SKEW_MS

    @property
    def amount(self) -> str:
        """Clock skew and its error bound in seconds, as text."""
        return f"{abs(self.skew.ahead_ms) / 1000:.3f} s, to {self.skew.bound_ms / 1000:.3f} s"

    @property
    def sentence(self) -> str:
        """Direction and size of the clock skew, as text."""
        side = "ahead of" if self.skew.ahead_ms > 0 else "behind"
        return f"a broker's clock is {side} that of instance {self.instance}: {self.amount}"


def worst_skews(instances: Iterable[Mapping[str, Any]]) -> dict[str, ClusterSkew]:
    """Return the largest clock skew of each cluster, sorted by cluster name.

    `instances`: response of `GET /v1/instances`.
    """
    found: dict[str, ClusterSkew] = {}
    for instance in instances:
        for cluster, clock in ((instance["health"] or {}).get("clocks") or {}).items():
            skew = ClockSkew(clock["ahead_seconds"] * 1000, clock["bound_seconds"] * 1000)
            known = found.get(cluster)
            if known is None or skew.least_ms > known.skew.least_ms:
                found[cluster] = ClusterSkew(skew, instance["name"])
    return dict(sorted(found.items()))
