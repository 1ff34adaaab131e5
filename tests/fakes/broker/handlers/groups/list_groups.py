"""ListGroups: the groups that the broker coordinates."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import ListGroupsRequest, ListGroupsResponse

from tests.fakes.broker.faults import HandledRequest
from tests.fakes.broker.handlers.entry import Handler
from tests.fakes.broker.state import ClusterState

_Group = ListGroupsResponse.ListedGroup


def _handle(state: ClusterState, asked: HandledRequest) -> Any:
    error = asked.error()
    names = sorted({*state.groups, *state.group_states})
    groups = [
        _Group(group_id=name, protocol_type="consumer", group_state=what, group_type=kind)
        for name in names
        for kind, what in [state.group_states.get(name, ("Classic", "Empty"))]
        if state.coordinator_of(name) == asked.broker
    ]
    return ListGroupsResponse(error_code=error, groups=[] if error else groups)


HANDLER = Handler(ListGroupsRequest, ListGroupsResponse, (0, 5), _handle)
