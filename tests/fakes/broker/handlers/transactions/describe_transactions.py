"""DescribeTransactions and ListTransactions: the state of transactional ids."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
)

from tests.fakes.broker.faults import HandledRequest
from tests.fakes.broker.handlers.entry import Handler
from tests.fakes.broker.state import ClusterState
from tests.fakes.broker.transactions import State, Transactional

_NOT_COORDINATOR = 16
_NOT_FOUND = 105
_State = DescribeTransactionsResponse.TransactionState


def _handle(state: ClusterState, asked: HandledRequest) -> Any:
    return DescribeTransactionsResponse(
        transaction_states=[_describe(state, asked, name) for name in asked.message.transactional_ids]
    )


def _describe(state: ClusterState, asked: HandledRequest, name: str) -> Any:
    entry = state.coordinator.known.get(name)
    error = asked.error(name)
    if not error and state.coordinator_of(name) != asked.broker:
        error = _NOT_COORDINATOR
    if not error and entry is None:
        error = _NOT_FOUND
    if error or entry is None:
        return _State(
            error_code=error,
            transactional_id=name,
            transaction_state="",
            transaction_timeout_ms=0,
            transaction_start_time_ms=0,
            producer_id=0,
            producer_epoch=0,
            topics=[],
        )
    return _State(
        error_code=0,
        transactional_id=name,
        transaction_state=_word(entry),
        transaction_timeout_ms=entry.timeout_ms,
        transaction_start_time_ms=-1,
        producer_id=entry.producer,
        producer_epoch=entry.epoch,
        topics=[_State.TopicData(topic=topic, partitions=[number]) for topic, number in sorted(entry.places)],
    )


def _word(entry: Transactional) -> str:
    if entry.state is State.ENDING:
        return "PrepareCommit" if entry.commits else "PrepareAbort"
    return str(entry.state.value)


def _list(state: ClusterState, asked: HandledRequest) -> Any:
    wanted = asked.message.producer_id_filters
    states = [
        ListTransactionsResponse.TransactionState(
            transactional_id=name, producer_id=entry.producer, transaction_state=_word(entry)
        )
        for name, entry in sorted(state.coordinator.known.items())
        if state.coordinator_of(name) == asked.broker and (not wanted or entry.producer in wanted)
    ]
    return ListTransactionsResponse(
        error_code=asked.error(None), unknown_state_filters=[], transaction_states=states
    )


HANDLER = Handler(DescribeTransactionsRequest, DescribeTransactionsResponse, (0, 0), _handle)
LISTING = Handler(ListTransactionsRequest, ListTransactionsResponse, (0, 0), _list)
