"""Fetch, with sessions, isolation, leader epochs and fetching from followers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from kafka.protocol.consumer import FetchRequest, FetchResponse

from tests.fakes.broker.faults import HandledRequest
from tests.fakes.broker.handlers.entry import Handler
from tests.fakes.broker.handlers.records.leadership import FENCED_EPOCH, NOT_LEADER, judge_leader
from tests.fakes.broker.sessions import Opened, SessionPlace, Shown, Wanted
from tests.fakes.broker.state import ClusterState
from tests.fakes.broker.topics import Partition

_OUT_OF_RANGE: Final = 1
_UNKNOWN_TOPIC_ID: Final = 100
_BY_ID_FROM: Final = 13
_FOLLOWERS_FROM: Final = 11
_HINTS_FROM: Final = 12
_ENDPOINTS_FROM: Final = 16
_COMMITTED: Final = 1
_NOBODY: Final = -1
_Topic = FetchResponse.FetchableTopicResponse
_Partition = _Topic.PartitionData


@dataclass
class _Read:
    """Response for one partition."""

    place: SessionPlace
    partition: Partition | None = None
    error: int = 0
    data: bytes = b""
    high_watermark: int = -1
    last_stable: int = -1
    log_start: int = -1
    aborted: list[tuple[int, int]] | None = None
    diverging: tuple[int, int] | None = None
    preferred: int = _NOBODY

    @property
    def is_urgent(self) -> bool:
        """Return whether the response must not wait for more bytes."""
        return bool(self.error) or self.diverging is not None or self.preferred != _NOBODY


def _handle(state: ClusterState, asked: HandledRequest) -> Any:
    message = asked.message
    if asked.memo is None:
        asked.memo = _open(state, asked)
        asked.until = state.clock.monotonic() + message.max_wait_ms / 1000
    opened: Opened = asked.memo
    top = asked.error("", -1) if opened.error == 0 else opened.error
    if top:
        return FetchResponse(error_code=top, session_id=0, responses=[])
    reads = _read_all(state, asked, opened.wanted)
    size = sum(len(one.data) for one in reads)
    is_enough = size >= message.min_bytes or not reads or any(one.is_urgent for one in reads)
    assert asked.until is not None
    if not is_enough and state.clock.monotonic() < asked.until:
        return None
    return _response(state, asked, opened, reads)


def _open(state: ClusterState, asked: HandledRequest) -> Opened:
    message = asked.message
    by_id = asked.version >= _BY_ID_FROM
    wanted: dict[SessionPlace, Wanted] = {}
    for topic in message.topics:
        for one in topic.partitions:
            wanted[topic.topic_id if by_id else topic.topic, one.partition] = Wanted(
                one.current_leader_epoch, one.fetch_offset, one.last_fetched_epoch, one.partition_max_bytes
            )
    forgotten = [
        (topic.topic_id if by_id else topic.topic, number)
        for topic in message.forgotten_topics_data or []
        for number in topic.partitions
    ]
    sessions = state.brokers[asked.broker].sessions
    return sessions.open(message.session_id, message.session_epoch, wanted, forgotten, by_id=by_id)


def _read_all(
    state: ClusterState, asked: HandledRequest, wanted: Mapping[SessionPlace, Wanted]
) -> list[_Read]:
    room = asked.message.max_bytes
    has_data = False
    reads = []
    for place, position in wanted.items():
        one = _read(state, asked, place, position, room, is_first=not has_data)
        has_data = has_data or bool(one.data)
        room = max(room - len(one.data), 0)
        reads.append(one)
    return reads


def _read(
    state: ClusterState,
    asked: HandledRequest,
    place: SessionPlace,
    position: Wanted,
    room: int,
    *,
    is_first: bool,
) -> _Read:
    key, number = place
    one = _Read(place)
    topic = state.topics.get(key) if isinstance(key, str) else state.topic_by_id(key)
    if topic is None and not isinstance(key, str):
        one.error = _UNKNOWN_TOPIC_ID
        return one
    name = topic.name if topic else str(key)
    partition = one.partition = state.find((name, number))
    followers = asked.version >= _FOLLOWERS_FROM
    one.error = asked.error(name, number) or judge_leader(
        partition, asked.broker, position.leader_epoch, followers=followers
    )
    if one.error or partition is None:
        return one
    preferred = _preferred(state, asked, partition)
    log = partition.log
    if preferred == _NOBODY:
        _look(one, partition, position)
        if one.error:
            return one
    one.preferred = preferred
    one.high_watermark, one.last_stable, one.log_start = log.high_watermark, log.last_stable, log.start
    if one.diverging is not None or preferred != _NOBODY:
        return one
    committed = asked.message.isolation_level == _COMMITTED
    size = min(position.max_bytes, room)
    found = log.read(position.offset, log.bound(committed=committed), size, whole_first=is_first)
    one.data = found.data
    if committed:
        between = log.aborted_between(position.offset, found.end)
        one.aborted = [(aborted.producer, aborted.first) for aborted in between]
    return one


def _look(one: _Read, partition: Partition, position: Wanted) -> None:
    """Validate the fetch offset, and the client's last epoch against the log."""
    log = partition.log
    if position.last_epoch >= 0:
        epoch, end = log.end_of_epoch(position.last_epoch)
        if epoch < 0 or position.offset < log.start:
            one.error = _OUT_OF_RANGE
            return
        if epoch < position.last_epoch or end < position.offset:
            one.diverging = (epoch, end)
            return
    if not log.start <= position.offset <= log.end:
        one.error = _OUT_OF_RANGE


def _preferred(state: ClusterState, asked: HandledRequest, partition: Partition) -> int:
    """Return the preferred replica for a client in this rack (KIP-392)."""
    rack = asked.message.rack_id
    if not state.serves_from_followers or not rack or partition.leader != asked.broker:
        return _NOBODY
    near = [
        node
        for node in partition.in_sync
        if state.brokers[node].rack == rack and not state.brokers[node].is_down
    ]
    return _NOBODY if not near or partition.leader in near else near[0]


def _response(state: ClusterState, asked: HandledRequest, opened: Opened, reads: list[_Read]) -> Any:
    session = opened.session
    topics: dict[Any, list[Any]] = {}
    hinted: set[int] = set()
    for one in reads:
        shown = Shown(one.high_watermark, one.log_start)
        if session is not None:
            has_news = one.data or one.is_urgent or session.shown.get(one.place) != shown
            session.shown[one.place] = Shown() if one.error else shown
            if opened.is_incremental and not has_news:
                continue
            if one.data:
                sessions = state.brokers[asked.broker].sessions
                sessions.served(session, one.place)
        if _gives_hint(state, asked, one):
            assert one.partition is not None
            hinted.add(one.partition.leader)
        topics.setdefault(one.place[0], []).append(_partition(state, asked, one))
    by_id = asked.version >= _BY_ID_FROM
    fields: dict[str, Any] = {
        "error_code": 0,
        "session_id": session.identity if session is not None else 0,
        "responses": [
            _Topic(**{"topic_id" if by_id else "topic": key}, partitions=answers)
            for key, answers in topics.items()
        ],
    }
    if hinted and asked.version >= _ENDPOINTS_FROM:
        fields["node_endpoints"] = [
            FetchResponse.NodeEndpoint(
                node_id=node, host="127.0.0.1", port=state.brokers[node].port, rack=state.brokers[node].rack
            )
            for node in sorted(hinted)
        ]
    return FetchResponse(**fields)


def _gives_hint(state: ClusterState, asked: HandledRequest, one: _Read) -> bool:
    is_moved = one.error in (NOT_LEADER, FENCED_EPOCH)
    is_known = one.partition is not None and one.partition.leader != _NOBODY
    return state.gives_hints and asked.version >= _HINTS_FROM and is_moved and is_known


def _partition(state: ClusterState, asked: HandledRequest, one: _Read) -> Any:
    tagged: dict[str, Any] = {}
    if one.diverging is not None:
        epoch, end = one.diverging
        tagged["diverging_epoch"] = _Partition.EpochEndOffset(epoch=epoch, end_offset=end)
    if _gives_hint(state, asked, one) and one.partition is not None:
        tagged["current_leader"] = _Partition.LeaderIdAndEpoch(
            leader_id=one.partition.leader, leader_epoch=one.partition.epoch
        )
    aborted = one.aborted
    return _Partition(
        partition_index=one.place[1],
        error_code=one.error,
        high_watermark=one.high_watermark,
        last_stable_offset=one.last_stable,
        log_start_offset=one.log_start,
        aborted_transactions=None
        if aborted is None
        else [_Partition.AbortedTransaction(producer_id=p, first_offset=first) for p, first in aborted],
        preferred_read_replica=one.preferred,
        records=one.data,
        **tagged,
    )


HANDLER = Handler(FetchRequest, FetchResponse, (4, 17), _handle)
