"""Requests for the groups that a broker coordinates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from kafka.protocol.admin import ListGroupsRequest, ListGroupsResponse

from mirror.protocol.control.call import Call

SHARE: Final = "share"
"""Type of a share group (KIP-932)."""
_WITHOUT_MEMBERS: Final = frozenset({"", "Empty", "Dead"})
_MANY_BYTES: Final = 32 * 1024 * 1024
"""Response with some hundred thousand groups."""


class ListedGroup(NamedTuple):
    """A group. `kind`: classic, consumer, streams or share, empty on brokers before Kafka 3.8. `state`: empty
    on brokers before Kafka 2.6."""

    kind: str = ""
    state: str = ""

    @property
    def has_members(self) -> bool:
        """Return whether the group is known to have members."""
        return self.state not in _WITHOUT_MEMBERS


class ListedGroups(NamedTuple):
    """Groups by name; none with an `error`."""

    error: int
    groups: Mapping[str, ListedGroup]


def list_groups() -> Call[ListedGroups]:
    """Request the groups of all types and states that the broker coordinates."""

    def read(response: Any) -> ListedGroups:
        groups = {
            one.group_id: ListedGroup((one.group_type or "").lower(), one.group_state or "")
            for one in response.groups
        }
        return ListedGroups(response.error_code, groups)

    return Call(
        ListGroupsRequest,
        ListGroupsResponse,
        (1, 5),
        lambda version: ListGroupsRequest(states_filter=[], types_filter=[], version=version),
        read,
        _MANY_BYTES,
    )
