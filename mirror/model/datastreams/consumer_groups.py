"""Options for consumer groups whose committed offsets a datastream synchronises to the destination."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any, Final

from mirror.errors import InvalidRequest
from mirror.model import bounds
from mirror.model.expressions import Expression, expression_of

INCLUDE: Final = "headrace-groups"
EXCLUDE: Final = "headrace-groups-exclude"
INTERVAL: Final = "headrace-groups-interval"
DIRECTION: Final = "headrace-groups-direction"
"""Metadata keys of the options for consumer groups. They lack the prefix `headrace.`, so that older versions
keep them."""
FIELDS: Final = {INCLUDE: "include", EXCLUDE: "exclude", INTERVAL: "interval_seconds", DIRECTION: "direction"}
DEFAULT_SECONDS: Final = 5
SHORTEST_SECONDS: Final = 0.1
LONGEST_SECONDS: Final = 3_600
_USUAL_CHECKPOINT_SECONDS: Final = 2.0
LONGEST_EXPRESSION: Final = 4_096


class GroupDirection(StrEnum):
    """Direction in which committed offsets are synchronised."""

    FORWARD = "forward"
    """From the source to the destination."""
    BOTH = "both"
    """From the cluster at which the group reads to the other cluster."""


@dataclass(frozen=True)
class FollowingGroups:
    """Selection of consumer groups to synchronise. Raises InvalidRequest for an invalid expression.

    `include`, `exclude`: regular expressions that must match the whole name; `exclude` takes precedence.
    Without `include`, no group is selected.
    """

    include: str | None = None
    exclude: str | None = None
    interval_seconds: float = DEFAULT_SECONDS
    direction: GroupDirection = GroupDirection.FORWARD

    def __post_init__(self) -> None:
        assert self._included is not None or not self.include  # compile now to reject it early
        assert self._excluded is not None or not self.exclude

    @cached_property
    def _included(self) -> Expression | None:
        return expression_of("groups", self.include) if self.include else None

    @cached_property
    def _excluded(self) -> Expression | None:
        return expression_of("groups.exclude", self.exclude) if self.exclude else None

    @property
    def is_on(self) -> bool:
        """Return whether the selection can contain a group."""
        return bool(self.include)

    @property
    def checkpoint_seconds(self) -> float:
        """Maximum seconds between checkpoints for this interval; 0 if the usual interval suffices.

        A position can be translated only up to the last checkpoint.
        """
        seconds = self.interval_seconds / 2
        return seconds if self.is_on and seconds < _USUAL_CHECKPOINT_SECONDS else 0.0

    def selects(self, group: str) -> bool:
        """Return whether a consumer group is selected."""
        is_included = self._included is not None and self._included.matches(group)
        return is_included and not (self._excluded is not None and self._excluded.matches(group))


NO_GROUPS: Final = FollowingGroups()


def read_expression(label: str, value: str) -> object:
    """Validate a regular expression for group names. Raises InvalidRequest."""
    if not value:
        raise InvalidRequest(f"{label} is empty", advice="use .* for every group, or omit the key")
    bounds.text(label, value, LONGEST_EXPRESSION)
    return Expression(label, value)


def read_interval(label: str, value: str) -> object:
    """Validate an interval in seconds. Raises InvalidRequest."""
    return bounds.decimal(label, value, SHORTEST_SECONDS, LONGEST_SECONDS)


def read_direction(label: str, value: object) -> GroupDirection:
    """Parse the direction in which committed offsets are synchronised. Raises InvalidRequest."""
    return bounds.choice(label, GroupDirection, value)


def groups_from(metadata: Mapping[str, str]) -> FollowingGroups:
    """Return the selection of groups in a datastream's metadata. Raises InvalidRequest."""
    found: dict[str, Any] = {field: metadata[key] for key, field in FIELDS.items() if key in metadata}
    if not found:
        return NO_GROUPS
    if INTERVAL in metadata:
        found["interval_seconds"] = float(metadata[INTERVAL])
    if DIRECTION in metadata:
        found["direction"] = read_direction(DIRECTION, metadata[DIRECTION])
    return FollowingGroups(**found)
