"""Test unexpected errors in a step of one lane: only that lane pauses, until the step works again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from mirror.lane.batch_router import BatchRouter
from mirror.lane.lane import Lane
from mirror.model.datastreams.lanes import LanePaused
from mirror.model.datastreams.policy import CopyPolicy, Guarantee
from mirror.model.identifiers import ClusterRef
from mirror.model.topics import TopicPartition
from mirror.replication.lanes.delivery import LaneDelivery, UnsavedProgress
from mirror.replication.lanes.producer_identities import ProducerIdentities
from mirror.replication.lanes.source_ends import SourceEnds
from tests.engines import specs
from tests.fakes.broker.batches import Content
from tests.fakes.broker.mirrored import MirroredFakes

FAILING = TopicPartition("t", 1)
STEPS = [
    (BatchRouter, "take"),
    (LaneDelivery, "accept"),
    (LaneDelivery, "next_batch"),
    (LaneDelivery, "_send"),
    (LaneDelivery, "acknowledge"),
    (LaneDelivery, "settle"),
    (LaneDelivery, "restamp"),
    (Lane, "restore"),
    (UnsavedProgress, "begin"),
    (ProducerIdentities, "begin"),
    (Lane, "stored_progress"),
    (SourceEnds, "note_response"),
    (Lane, "fetch_position"),
]


class Fault(ZeroDivisionError):
    """An unexpected error."""


class FailingStep:
    """Replacement of a method that fails for partition 1 until `is_mended` is set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, owner: type, name: str) -> None:
        step = getattr(owner, name)
        self.is_mended = False

        def fail(*arguments: Any, **options: Any) -> Any:
            lane = next((one for one in arguments if isinstance(one, Lane)), None)
            concerned = b"-1-" in bytes(arguments[1]) if lane is None else lane.key.partition == FAILING
            if concerned and not self.is_mended:
                raise Fault("on purpose")
            return step(*arguments, **options)

        monkeypatch.setattr(owner, name, fail)


def prepare(fakes: MirroredFakes, policy: CopyPolicy, *, is_begun: bool) -> None:
    """Write 120 records to each of three partitions; with `is_begun`, copy the first 100 and stop."""
    fakes.make_topic("t", 3)
    for number in range(3):
        for first in range(0, 100, 10):
            fakes.write("t", first, 10, number)
    if is_begun:
        fakes.start("t", 3, policy=policy)
        for number in range(3):
            fakes.run_to("t", 100, number)
        fakes.stop()
        fakes.events.clear()
        fakes.new_engine()
    for number in range(3):
        for _ in range(2):
            marked: Content = (fakes.clock.now_ms(), b"k", b"-%d-" % number * 100, [])
            fakes.source.write("t", [marked] * 10, number)


@pytest.mark.parametrize(("owner", "name"), STEPS, ids=[f"{owner.__name__}.{name}" for owner, name in STEPS])
@pytest.mark.parametrize(
    ("guarantee", "level"),
    [(Guarantee.EFFECTIVELY_ONCE, 2), (Guarantee.EXACTLY_ONCE, 0), (Guarantee.EXACTLY_ONCE, 2)],
)
def test_a_step_that_fails_in_any_way_sets_one_lane_aside(
    new_fakes: Callable[..., MirroredFakes],
    monkeypatch: pytest.MonkeyPatch,
    owner: type,
    name: str,
    guarantee: Guarantee,
    level: int,
) -> None:
    """The step is the reason of every pause, also after retries.

    Once it works again, the lane copies every record once and returns all memory.
    """
    fakes = new_fakes(transaction_level=level)
    policy = CopyPolicy(guarantee=guarantee)
    prepare(fakes, policy, is_begun=name == "restore")
    step = FailingStep(monkeypatch, owner, name)
    fakes.start("t", 3, policy=policy)
    for number in (0, 2):
        fakes.run_to("t", 120, number)
    fakes.run_until_paused("t", 1)
    fakes.run(2)
    assert all("Fault: on purpose" in reason for reason in fakes.pauses(fakes.lane("t", 1).key))
    assert {one.key.partition for one in fakes.events if isinstance(one, LanePaused)} == {FAILING}
    step.is_mended = True
    fakes.run_until(lambda: fakes.lane("t", 1).pause is None, "the lane copies again")
    fakes.run_to("t", 120, 1)
    fakes.check("t", 3)
    assert (fakes.context.budget.used, fakes.context.live_budget.used) == (0, 0)


@pytest.mark.parametrize("side", ["source", "destination"])
def test_a_cluster_that_cannot_be_opened_pauses_its_own_lanes(fakes: MirroredFakes, side: str) -> None:
    """The paused lane can still be stopped, and other lanes copy and store their progress."""
    for topic in ("t", "u"):
        fakes.make_topic(topic)
        fakes.write(topic, 0, 10)
    (spec,) = specs("u")
    unknown = ClusterRef("unknown")
    away = replace(spec, source=unknown) if side == "source" else replace(spec, destination=unknown)
    fakes.engine.start_lanes([away, *specs("t")])
    fakes.run_to("t", 10)
    fakes.run_until_paused("u")
    fakes.engine.stop_lanes([away.key])
    fakes.run_until(lambda: away.key not in fakes.engine.lanes.by_key, "the lane stops")
    fakes.write("t", 10, 10)
    fakes.run_to("t", 20)
    assert {one.key for one in fakes.events if isinstance(one, LanePaused)} == {away.key}
