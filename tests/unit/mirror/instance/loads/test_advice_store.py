"""Test the advice stored in ZooKeeper for every instance and the next leader."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest

from mirror.coordination.stores import node_codec, znodes
from mirror.instance.loads.advice_store import AdviceStore
from mirror.model.capacity.advice import Advice, GroupNeed, HourNeed, Hours, PastNeed
from mirror.model.identifiers import GroupName
from tests.fakes.node_store import FakeZooKeeper

ADVICE = Advice(
    computed_ms=5,
    tasks=2,
    instances=1,
    required_tasks=3,
    required_instances=None,
    why="nobody says",
    sentence="needs 3 tasks",
    lower_since_ms=4,
    lower_tasks=2,
    rises=HourNeed(7, 3, 4),
    peak=HourNeed(7, 3, 4),
    sums=Hours(1, 2, 4, 1, None),
    past_day=PastNeed(1, 2, 3, 3),
    past_week=PastNeed(7, 14, 21, 9),
    groups=(GroupNeed(GroupName("orders/é"), 2, 3, (HourNeed(7, 3, 4),), "", 9, 0.5, None),),
)


def test_what_one_leader_advised_the_next_finds() -> None:
    server = FakeZooKeeper()
    first = AdviceStore(server.session())
    assert first.read() is None
    first.put(ADVICE)
    first.put(ADVICE)
    assert AdviceStore(server.session()).read() == ADVICE


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"format": 2, "advice": asdict(ADVICE)},
        {"format": 1},
        {"format": 1, "advice": []},
        {"format": 1, "advice": {**asdict(ADVICE), "tasks": "many"}},
        {"format": 1, "advice": {**asdict(ADVICE), "groups": [None]}},
        {"format": 1, "advice": {**asdict(ADVICE), "required_tasks": -1}},
        {"format": 1, "advice": {**asdict(ADVICE), "last_required_tasks": 10**17}},
        {"format": 1, "advice": {**asdict(ADVICE), "lower_since_ms": 10**300}},
        {"format": 1, "advice": {**asdict(ADVICE), "sentence": "\x1b[2J"}},
        {"format": 1, "advice": {**asdict(ADVICE), "past_day": {"hours": 24}}},
        {
            "format": 1,
            "advice": {**asdict(ADVICE), "past_week": {**asdict(PastNeed(1, 2, 3, 3)), "hours": -1}},
        },
        {"format": 1, "advice": {**asdict(ADVICE), "peak": {"hour_ms": -1, "tasks": 1, "most_tasks": 1}}},
        {"format": 1, "advice": {**asdict(ADVICE), "groups": [{"group": "g", "tasks": -2, "now": 1}]}},
        {
            "format": 1,
            "advice": {**asdict(ADVICE), "groups": [{"group": "g", "tasks": 2, "now": 1, "error": -0.5}]},
        },
    ],
)
def test_what_cannot_be_read_is_no_advice(document: dict[str, object]) -> None:
    session = FakeZooKeeper().session()
    session.create(znodes.ADVICE, node_codec.encode_chunks(document)[0])
    assert AdviceStore(session).read() is None
    AdviceStore(session).put(ADVICE)
    assert AdviceStore(session).read() == ADVICE


def test_what_an_earlier_version_advised_has_no_past() -> None:
    session = FakeZooKeeper().session()
    before = {name: one for name, one in asdict(ADVICE).items() if not name.startswith("past")}
    session.create(znodes.ADVICE, node_codec.encode_chunks({"format": 1, "advice": before})[0])
    assert AdviceStore(session).read() == replace(ADVICE, past_day=None, past_week=None)


def test_bytes_that_are_no_document_are_no_advice() -> None:
    session = FakeZooKeeper().session()
    session.create(znodes.ADVICE, b"\xff")
    assert AdviceStore(session).read() is None
