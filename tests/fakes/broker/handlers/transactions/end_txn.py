"""EndTxn; since version 5 every transaction has a separate epoch (KIP-890)."""

from __future__ import annotations

from typing import Any

from kafka.protocol.producer import EndTxnRequest, EndTxnResponse

from tests.fakes.broker.faults import HandledRequest
from tests.fakes.broker.handlers.entry import Handler
from tests.fakes.broker.state import ClusterState
from tests.fakes.broker.transactions import FENCED

_NOT_COORDINATOR = 16
_OLD_EPOCH = 47
_FENCED_FROM = 2
_BUMPS_FROM = 5


def _handle(state: ClusterState, asked: HandledRequest) -> Any:
    message = asked.message
    name = message.transactional_id
    error = asked.error(name)
    if not error and state.coordinator_of(name) != asked.broker:
        error = _NOT_COORDINATOR
    producer = epoch = -1
    if not error:
        ended = state.coordinator.end(
            name,
            message.producer_id,
            message.producer_epoch,
            commit=message.committed,
            bumps=asked.version >= _BUMPS_FROM,
        )
        error = asked.error_after(name) or ended.error
        if not error:
            producer, epoch = ended.producer, ended.epoch
    if error == FENCED and asked.version < _FENCED_FROM:
        error = _OLD_EPOCH
    return EndTxnResponse(error_code=error, producer_id=producer, producer_epoch=epoch)


HANDLER = Handler(EndTxnRequest, EndTxnResponse, (0, 5), _handle)
