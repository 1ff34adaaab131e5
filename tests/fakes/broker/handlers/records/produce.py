"""Produce."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final
from zlib import crc32

from kafka.protocol.producer import ProduceRequest, ProduceResponse

from tests.fakes.broker import batches
from tests.fakes.broker.faults import HandledRequest
from tests.fakes.broker.handlers.entry import NO_ANSWER, Handler
from tests.fakes.broker.handlers.records.leadership import NOT_LEADER, judge_leader
from tests.fakes.broker.handlers.records.validation import judge_batch
from tests.fakes.broker.state import ClusterState
from tests.fakes.broker.topics import Partition, Topic
from tests.fakes.broker.transactions import FENCED

UNKNOWN_TOPIC: Final = 3
TIMED_OUT: Final = 7
NOT_ENOUGH_REPLICAS: Final = 19
OLD_EPOCH: Final = 47
INVALID_TXN_STATE: Final = 48
TOPIC_NOT_AUTHORIZED: Final = 29
NOT_AUTHORIZED: Final = 53
UNKNOWN_TOPIC_ID: Final = 100
TRANSACTION_ABORTABLE: Final = 120
_BY_ID_FROM: Final = 13
_IMPLICIT_FROM: Final = 12
_IMPLICIT_LEVEL: Final = 2
_ABORTABLE_FROM: Final = 11
_HINTS_FROM: Final = 10
_ALL: Final = -1
_WRITE: Final = 4
_Topic = ProduceResponse.TopicProduceResponse
_Partition = _Topic.PartitionProduceResponse


@dataclass
class _Written:
    """Result for the batch of one partition, acknowledged when the high watermark reaches `needs`."""

    key: Any
    number: int
    partition: Partition | None
    error: int = 0
    base: int = -1
    append_time: int = -1
    needs: int = -1
    message: str | None = None
    culprits: tuple[tuple[int, str], ...] = ()

    @property
    def is_replicated(self) -> bool:
        return self.partition is None or self.partition.log.high_watermark >= self.needs


def _handle(state: ClusterState, asked: HandledRequest) -> Any:
    message = asked.message
    if asked.memo is None:
        asked.memo = _write_all(state, asked)
        asked.until = state.clock.monotonic() + message.timeout_ms / 1000
    written: list[_Written] = asked.memo
    if message.acks == 0:
        return NO_ANSWER
    if message.acks == _ALL and not all(one.is_replicated for one in written):
        assert asked.until is not None
        if state.clock.monotonic() < asked.until:
            return None
        for one in written:
            if not one.is_replicated:
                one.error = TIMED_OUT
    return _response(state, asked, written)


def _write_all(state: ClusterState, asked: HandledRequest) -> list[_Written]:
    by_id = asked.version >= _BY_ID_FROM
    # If a partition is named twice, a broker uses only the last batch.
    entries = {
        (topic.topic_id if by_id else topic.name, one.index): one.records
        for topic in asked.message.topic_data
        for one in topic.partition_data
    }
    is_bare = not asked.message.transactional_id
    unauthorized = is_bare and any(_is_transactional(records) for records in entries.values())
    written = []
    for (key, number), records in entries.items():
        topic = state.topic_by_id(key) if by_id else state.topics.get(key)
        name = topic.name if topic else str(key)
        partition = state.find((name, number))
        one = _Written(key, number, partition)
        written.append(one)
        one.error = asked.error(name, number) or (NOT_AUTHORIZED if unauthorized else 0)
        if state.is_denied(f"User:{asked.client_id}", _WRITE, name):
            one.error = one.error or TOPIC_NOT_AUTHORIZED
        if not one.error and by_id and topic is None:
            one.error = UNKNOWN_TOPIC_ID
        one.error = one.error or judge_leader(partition, asked.broker, -1)
        if not one.error and topic is not None and partition is not None:
            _write(state, asked, topic, one, records)
        one.error = one.error or asked.error_after(name, number)
    return sorted(written, key=lambda one: crc32(f"{one.key} {one.number}".encode()))


def _is_transactional(records: bytes | None) -> bool:
    return (
        bool(records)
        and len(bytes(records or b"")) > 22
        and bool(bytes(records or b"")[22] & batches.TRANSACTIONAL)
    )


def _write(
    state: ClusterState, asked: HandledRequest, topic: Topic, one: _Written, records: bytes | None
) -> None:
    assert one.partition is not None
    log, now_ms = one.partition.log, state.clock.now_ms()
    living = [node for node in one.partition.in_sync if not state.brokers[node].is_down]
    if asked.message.acks == _ALL and len(living) < int(topic.setting("min.insync.replicas")):
        one.error = NOT_ENOUGH_REPLICAS
        return
    judged = judge_batch(topic, records, asked.version, now_ms)
    one.error, one.message, one.culprits = judged.error, judged.message, judged.culprits
    if one.error:
        return
    batch = batches.view(judged.data)
    if batch.is_transactional:
        one.error = _join_transaction(state, asked, (topic.name, one.number), batch, one.partition)
        if one.error:
            return
    if batch.producer_id >= 0:
        bumps = batch.is_transactional and _is_implicit(state, asked)
        verdict = log.producers.judge(batch, bumps_epochs=bumps)
        one.error = verdict.error
        if verdict.error:
            return
        if verdict.duplicate_of >= 0:
            one.base, one.append_time = verdict.duplicate_of, verdict.stored_ms
            one.needs = verdict.duplicate_of + batch.last_offset_delta + 1
            return
    stored = log.append(judged.data, one.partition.epoch, now_ms)
    one.base, one.append_time, one.needs = stored.base, judged.append_time, stored.last + 1


def _is_implicit(state: ClusterState, asked: HandledRequest) -> bool:
    return asked.version >= _IMPLICIT_FROM and state.transaction_level >= _IMPLICIT_LEVEL


def _join_transaction(
    state: ClusterState, asked: HandledRequest, place: tuple[str, int], batch: Any, partition: Partition
) -> int:
    """Require the partition in the producer's open transaction, or add it; return an error code."""
    name, producer, epoch = asked.message.transactional_id, batch.producer_id, batch.producer_epoch
    known = partition.log.producers.entries.get(producer)
    if producer in partition.log.open and known is not None and known.epoch == epoch:
        return 0  # a transaction of an older epoch may still be waiting for its marker
    if _is_implicit(state, asked):
        error = state.coordinator.add(name, producer, epoch, [place])
        return OLD_EPOCH if error == FENCED else error
    if state.coordinator.has(name, producer, place):
        return 0
    if state.coordinator.is_outdated(name, producer, epoch):
        return OLD_EPOCH
    return TRANSACTION_ABORTABLE if asked.version >= _ABORTABLE_FROM else INVALID_TXN_STATE


def _response(state: ClusterState, asked: HandledRequest, written: list[_Written]) -> Any:
    topics: dict[Any, list[Any]] = {}
    hinted: set[int] = set()
    for one in written:
        answer = _Partition(
            index=one.number,
            error_code=one.error,
            base_offset=-1 if one.error else one.base,
            log_append_time_ms=-1 if one.error else one.append_time,
            log_start_offset=-1 if one.error or one.partition is None else one.partition.log.start,
            record_errors=[
                _Partition.BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=text)
                for index, text in one.culprits
            ],
            error_message=one.message,
        )
        if one.error == NOT_LEADER and one.partition is not None and state.gives_hints:
            leader = one.partition.leader
            if asked.version >= _HINTS_FROM and leader >= 0:
                hinted.add(leader)
                answer = _hinted(answer, leader, one.partition.epoch)
        topics.setdefault(one.key, []).append(answer)
    by_id = asked.version >= _BY_ID_FROM
    responses = [
        _Topic(**{"topic_id" if by_id else "name": key}, partition_responses=answers)
        for key, answers in topics.items()
    ]
    if not hinted:
        return ProduceResponse(responses=responses)
    return ProduceResponse(
        responses=responses,
        node_endpoints=[
            ProduceResponse.NodeEndpoint(
                node_id=node, host="127.0.0.1", port=state.brokers[node].port, rack=state.brokers[node].rack
            )
            for node in sorted(hinted)
        ],
    )


def _hinted(answer: Any, leader: int, epoch: int) -> Any:
    return _Partition(
        index=answer.index,
        error_code=answer.error_code,
        base_offset=-1,
        record_errors=[],
        error_message=None,
        current_leader=_Partition.LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch),
    )


HANDLER = Handler(ProduceRequest, ProduceResponse, (3, 13), _handle)
