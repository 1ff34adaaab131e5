"""InitProducerId."""

from __future__ import annotations

from typing import Any

from kafka.protocol.producer import InitProducerIdRequest, InitProducerIdResponse

from tests.fakes.broker.faults import HandledRequest
from tests.fakes.broker.handlers.entry import Handler
from tests.fakes.broker.state import ClusterState
from tests.fakes.broker.transactions import FENCED, Identity

_NOT_COORDINATOR = 16
_OLD_EPOCH = 47
_FENCED_FROM = 4
_KNOWN_FROM = 3


def _handle(state: ClusterState, asked: HandledRequest) -> Any:
    name = asked.message.transactional_id
    error = asked.error(name) or _misplaced(state, asked, name)
    known = (-1, -1)
    if asked.version >= _KNOWN_FROM:
        known = asked.message.producer_id, asked.message.producer_epoch
    found = Identity(error, -1, -1)
    if not error:
        found = state.coordinator.init(name, asked.message.transaction_timeout_ms, known)
    code = asked.error_after(name) or found.error
    if code == FENCED and asked.version < _FENCED_FROM:
        code = _OLD_EPOCH
    failed = bool(code)
    return InitProducerIdResponse(
        error_code=code,
        producer_id=-1 if failed else found.producer,
        producer_epoch=-1 if failed else found.epoch,
    )


def _misplaced(state: ClusterState, asked: HandledRequest, name: str | None) -> int:
    if name is None:
        return 0
    is_here = state.coordinator_of(name) == asked.broker
    is_made = state.has_transaction_log or not state.needs_coordinator_lookup
    return 0 if is_here and is_made else _NOT_COORDINATOR


HANDLER = Handler(InitProducerIdRequest, InitProducerIdResponse, (0, 5), _handle)
