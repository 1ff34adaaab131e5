"""Round trips of messages between worker and control process, however the bytes are split."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.errors import CorruptData, InvalidRequest
from mirror.model.datastreams.datastream import StartPosition
from mirror.model.datastreams.lanes import (
    LaneHeldBack,
    LaneKey,
    LanePaused,
    LaneResumed,
    LaneSpec,
    LaneStarted,
    LaneStopped,
    LaneWindows,
    QuotaHold,
    QuotaOwner,
    Unanswered,
    WindowLimit,
)
from mirror.model.datastreams.policy import CopyPath, CopyPolicy, Guarantee, Isolation, OnLoss, OnRejection
from mirror.model.metrics import SUMMED
from mirror.model.topics import TopicPartition
from mirror.worker.protocol import (
    CopySums,
    CoreUse,
    ExtendLease,
    LaneNews,
    LaneRate,
    LaneRates,
    LaneReports,
    LimitedLane,
    Message,
    MessageReader,
    QuotaShare,
    ShareQuotas,
    Shutdown,
    StartLanes,
    StopLanes,
    TaskSums,
    ThrottledTime,
    WaitingLane,
    WorkerAlive,
    WorkerDone,
    WorkerSetup,
    encode_message,
)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
offsets = st.integers(0, 2**62)
numbers = st.floats(allow_nan=False)
keys = st.builds(LaneKey, texts, st.builds(TopicPartition, texts, st.integers(0, 2**31)))


def make_policy(**choices: object) -> CopyPolicy:
    try:
        return CopyPolicy(**choices)  # type: ignore[arg-type]
    except InvalidRequest:
        return CopyPolicy(transforms=("one", "two"))


policies = st.builds(
    make_policy,
    guarantee=st.sampled_from(Guarantee),
    isolation=st.sampled_from(Isolation),
    on_loss=st.sampled_from(OnLoss),
    on_rejection=st.sampled_from(OnRejection),
    path=st.sampled_from(CopyPath),
    bytes_per_second=offsets,
    transforms=st.lists(texts, max_size=2).map(tuple),
)
specs = st.builds(
    LaneSpec,
    key=keys,
    task=texts,
    source=texts,
    destination=texts,
    destination_topic=texts,
    start=st.sampled_from(StartPosition),
    policy=policies,
    start_ms=st.none() | offsets,
    end_offset=st.none() | offsets,
    consumer_group=texts,
)
holds = st.builds(QuotaHold, st.sampled_from(QuotaOwner), numbers, st.none() | offsets)
events = (
    st.builds(LaneStarted, keys, offsets)
    | st.builds(LaneStopped, keys, st.none() | offsets)
    | st.builds(LanePaused, keys, texts)
    | st.builds(LaneResumed, keys)
    | st.builds(LaneHeldBack, keys, texts, st.none() | holds)
)
rates = st.builds(
    LaneRate,
    *(keys, texts, numbers, numbers, offsets, offsets),
    core=st.builds(CoreUse, st.none() | numbers, st.none() | numbers),
    checkpoint=st.none() | offsets,
)
waiting = st.builds(WaitingLane, keys, st.builds(Unanswered, st.none() | numbers, st.none() | numbers))
windows = st.builds(WindowLimit, offsets, offsets, numbers, offsets, offsets)
limited = st.builds(
    LimitedLane, keys, st.builds(LaneWindows, source=st.none() | windows, destination=st.none() | windows)
)
task_sums = st.builds(
    TaskSums,
    group=texts,
    task=texts,
    latency_counts=st.lists(offsets, max_size=3).map(tuple),
    sums=st.tuples(*(numbers if name.endswith("_ms") else offsets for name in SUMMED)),
)
documents = st.dictionaries(texts, offsets | texts | st.lists(texts, max_size=2), max_size=3)
messages: st.SearchStrategy[Message] = (
    st.builds(StartLanes, st.integers(0, 2**40), st.lists(specs, max_size=3).map(tuple))
    | st.builds(StopLanes, st.lists(keys, max_size=3).map(tuple))
    | st.builds(ShareQuotas, st.lists(st.builds(QuotaShare, texts, numbers), max_size=3).map(tuple))
    | st.builds(WorkerAlive)
    | st.builds(WorkerSetup, documents)
    | st.builds(
        CopySums,
        *[offsets] * 4,
        throttled=st.lists(st.builds(ThrottledTime, texts, numbers), max_size=2).map(tuple),
    )
    | st.builds(LaneReports, st.lists(documents, max_size=2).map(tuple))
    | st.builds(WorkerDone, numbers, offsets)
    | st.builds(ExtendLease, numbers)
    | st.builds(Shutdown, numbers)
    | st.builds(LaneNews, st.lists(events, max_size=3).map(tuple))
    | st.builds(
        LaneRates,
        st.lists(rates, max_size=3).map(tuple),
        st.lists(task_sums, max_size=2).map(tuple),
        st.lists(st.builds(ThrottledTime, texts, numbers), max_size=2).map(tuple),
        waiting=st.lists(waiting, max_size=2).map(tuple),
        limited=st.lists(limited, max_size=2).map(tuple),
    )
)


@given(st.lists(messages, max_size=6), st.data())
def test_messages_arrive_as_they_were_however_they_are_cut(sent: list[Message], data: st.DataObject) -> None:
    stream = b"".join(encode_message(message) for message in sent)
    reader, received = MessageReader(), list[Message]()
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        received.extend(reader.feed(stream[:size]))
        stream = stream[size:]
    assert received == sent
    assert [type(message) for message in received] == [type(message) for message in sent]


@given(st.lists(messages, min_size=1, max_size=3))
def test_every_byte_may_come_alone(sent: list[Message]) -> None:
    reader = MessageReader()
    stream = b"".join(encode_message(message) for message in sent)
    assert [message for byte in stream for message in reader.feed(bytes([byte]))] == sent


@given(specs)
def test_enums_come_back_as_enums(spec: LaneSpec) -> None:
    (message,) = MessageReader().feed(encode_message(StartLanes(1, (spec,))))  # type: ignore[arg-type]
    assert isinstance(message, StartLanes)
    (found,) = message.specs
    assert isinstance(found.start, StartPosition)
    assert isinstance(found.policy.guarantee, Guarantee)
    assert isinstance(found.key.partition, TopicPartition)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"not json",
        b"{}",
        b"[]",
        b"1",
        b'["Unheard"]',
        b'["Shutdown"]',
        b'["Shutdown",1,2]',
        b'["StopLanes",5]',
        b'["LaneNews",[["LaneStarted"]]]',
        b'["StartLanes",1,[[["g",["t",0]],"task","a","b","t","sideways"]]]',
        b"\xff\xfe",
    ],
)
def test_what_is_no_message_is_refused(body: bytes) -> None:
    with pytest.raises(CorruptData):
        tuple(MessageReader().feed(len(body).to_bytes(4, "big") + body))
