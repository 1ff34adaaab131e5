"""Test requests to a cluster whose brokers do not agree on its topics yet."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from mirror.client.cluster import Cluster
from mirror.client.event_loop import Loop
from mirror.client.handshake import ConnectionConfigs
from mirror.errors import Unreachable
from mirror.model.topics import TopicPartition
from mirror.protocol.codes import Code
from mirror.protocol.control.cluster import TopicMetadata
from mirror.protocol.control.offsets import LATEST, OffsetAnswer
from tests.fakes.clock import ManualClock

PLACE = TopicPartition("new", 0)


class Answering(Cluster):
    """A cluster whose only broker leads all and returns `answers` in turn, the last one forever."""

    def __init__(self, loop: Loop, *answers: OffsetAnswer) -> None:
        access = SimpleNamespace(bootstrap=[])
        aside = SimpleNamespace(loop=loop, access=access, timeout_seconds=5.0, largest_batch_bytes=2**20)
        super().__init__(cast(ConnectionConfigs, SimpleNamespace(aside=aside)), "target")
        self.answers = list(answers)
        self.directory.brokers = {1: cast(Any, None)}
        self.topics = {"new": TopicMetadata("new", 0, b"i" * 16, False, ((1, 0),))}
        self.looked = 0

    async def refresh(self, topics: Iterable[str]) -> None:
        self.looked += bool(set(topics))

    async def ask(self, call: Any, broker: int | None = None, role: str = "") -> Any:
        return {PLACE: self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]}


def test_a_leader_that_does_not_know_its_new_topic_yet_is_asked_again(loop: Loop, clock: ManualClock) -> None:
    unknown = OffsetAnswer(Code.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)
    cluster = Answering(loop, unknown, unknown, OffsetAnswer(0, 7, 0))
    asking = loop.spawn(cluster.offsets({PLACE: LATEST}))
    for _ in range(40):
        clock.advance(0.1)
        loop.run_once(0.0)
    assert asking.result() == {PLACE: OffsetAnswer(0, 7, 0)}
    assert cluster.looked == 2


def test_one_that_never_comes_to_know_it_is_out_of_reach(loop: Loop, clock: ManualClock) -> None:
    cluster = Answering(loop, OffsetAnswer(Code.UNKNOWN_TOPIC_OR_PARTITION, -1, -1))
    asking = loop.spawn(cluster.offsets({PLACE: LATEST}))
    asking.when_done(lambda: None)
    for _ in range(80):
        clock.advance(0.1)
        loop.run_once(0.0)
    with pytest.raises(Unreachable, match=Code.UNKNOWN_TOPIC_OR_PARTITION.name):
        asking.result()
