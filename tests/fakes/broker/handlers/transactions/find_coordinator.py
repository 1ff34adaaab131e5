"""FindCoordinator. The first lookup of a transactional id creates the transaction log."""

from __future__ import annotations

from typing import Any

from kafka.protocol.metadata import FindCoordinatorRequest, FindCoordinatorResponse

from tests.fakes.broker.faults import HandledRequest
from tests.fakes.broker.handlers.entry import Handler
from tests.fakes.broker.state import TRANSACTION, ClusterState

_MANY_FROM = 4
_NOT_AVAILABLE = 15


def _handle(state: ClusterState, asked: HandledRequest) -> Any:
    message = asked.message
    if message.key_type == TRANSACTION:
        state.has_transaction_log = True
    if asked.version < _MANY_FROM:
        error, node, host, port = _look_up(state, asked, message.key)
        return FindCoordinatorResponse(
            error_code=error, error_message=None, node_id=node, host=host, port=port
        )
    found = []
    for key in message.coordinator_keys:
        error, node, host, port = _look_up(state, asked, key)
        found.append(
            FindCoordinatorResponse.Coordinator(
                key=key, node_id=node, host=host, port=port, error_code=error, error_message=""
            )
        )
    return FindCoordinatorResponse(coordinators=found)


def _look_up(state: ClusterState, asked: HandledRequest, key: str) -> tuple[int, int, str, int]:
    node = state.coordinator_of(key)
    error = asked.error(key) or (_NOT_AVAILABLE if node < 0 else 0)
    return (error, -1, "", -1) if error else (0, node, "127.0.0.1", state.brokers[node].port)


HANDLER = Handler(FindCoordinatorRequest, FindCoordinatorResponse, (0, 6), _handle)
