"""Test that start offsets of share groups follow from one fake cluster to another; in virtual time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirror.jobs.groups.failover import plan_without_source
from mirror.jobs.translate_job import TranslateJob, apply_translation
from tests.builders import DESTINATION, SOURCE
from tests.fakes.broker.faults import Code, Delay, Run
from tests.unit.mirror.engine.test_group_following import NO_RIGHTS, OFFSET_COMMIT, Following, R, following

__all__ = ["following"]
DESCRIBE, ALTER = 90, 91
UNSUPPORTED_VERSION = 35


@pytest.fixture
def shared(following: Following) -> Following:
    """Return clusters of which the source has a share group with members."""
    following.fakes.source.group_states["billing"] = ("Share", "Stable")
    following.at_source(12)
    return following


def test_a_start_offset_follows_forward_and_back_without_a_commit(shared: Following) -> None:
    commits: list[int] = []
    shared.fakes.target.faults.plant(OFFSET_COMMIT, Run(lambda: commits.append(1)), times=None)
    assert shared.look() == (R.NEW, 17)
    assert shared.fakes.target.group_states["billing"] == ("Share", "Empty")
    shared.at_source(14)
    assert shared.look() == (R.FORWARD, 19)
    shared.at_source(3)
    assert shared.look() == (R.RESET, 8)
    assert shared.group().may_redeliver
    assert commits == []


def test_a_start_offset_that_was_moved_at_the_destination_stays(shared: Following) -> None:
    shared.round()
    shared.fakes.target.groups["billing"]["t", 0] = 23
    shared.restart()
    shared.at_source(13)
    assert shared.look() == (R.WOULD_MOVE_BACK, 23)


def test_a_share_group_with_members_there_is_left_alone(shared: Following) -> None:
    target = shared.fakes.target
    target.group_states["billing"] = ("Share", "Stable")
    assert shared.look() == (R.MEMBERS, None)
    target.group_states["billing"] = ("Share", "Empty")

    def join() -> None:
        target.group_states["billing"] = ("Share", "Stable")

    target.faults.plant(ALTER, Run(join))
    assert shared.look() == (R.MEMBERS, None)


@pytest.mark.parametrize("side", ["source", "target"])
@pytest.mark.parametrize("kind", ["Classic", "Consumer", "Streams", ""])
def test_a_group_of_another_type_there_is_left_alone(following: Following, side: str, kind: str) -> None:
    sides = {"source": following.fakes.source, "target": following.fakes.target}
    for name, cluster in sides.items():
        cluster.group_states["billing"] = ("Share" if name == side else kind, "Empty")
    following.at_source(12)
    assert following.look() == (R.OTHER_TYPE, None)


def test_a_group_of_another_type_that_appears_before_the_request_is_left_alone(shared: Following) -> None:
    target = shared.fakes.target

    def appear() -> None:
        target.groups["billing"] = {("t", 0): 20}

    target.faults.plant(ALTER, Run(appear))
    assert shared.look() == (R.OTHER_TYPE, 20)


@pytest.mark.parametrize("side", ["source", "target"])
@pytest.mark.parametrize("has_api", [True, False])
def test_brokers_without_share_groups_are_a_reason(shared: Following, side: str, has_api: bool) -> None:
    cluster = getattr(shared.fakes, side)
    if has_api:
        cluster.faults.plant(DESCRIBE, Code(UNSUPPORTED_VERSION), times=None)
    else:
        cluster.newest_versions[DESCRIBE] = -1
    assert shared.look() == (R.SHARE_GROUP, None)
    assert shared.group().detail


def test_a_start_offset_that_the_broker_ignores_does_not_follow(shared: Following) -> None:
    shared.fakes.target.ignores_start_offsets = True
    assert shared.look() == (R.FAILED, None)
    shared.fakes.target.ignores_start_offsets = False
    assert shared.look() == (R.NEW, 17)


def test_rights_and_a_frozen_process_are_reasons(shared: Following) -> None:
    target = shared.fakes.target
    target.faults.plant(ALTER, Code(NO_RIGHTS))
    assert shared.look() == (R.NO_RIGHTS, None)
    target.faults.plant(DESCRIBE, Delay(6.0, applied=True))
    assert shared.look() == (R.FAILED, None)
    assert shared.look() == (R.NEW, 17)


def test_a_share_group_is_translated_without_the_source(shared: Following) -> None:
    shared.round()
    del shared.fakes.target.groups["billing"], shared.fakes.target.group_states["billing"]
    for node in shared.fakes.source.brokers:
        shared.fakes.source.take_down(node)
    job = TranslateJob("orders", SOURCE, DESTINATION, "billing")
    moves, _, kind = shared.context.run(plan_without_source(shared.context, job))
    assert shared.context.run(apply_translation(shared.context, replace(job, kind=kind), moves)) == 1
    assert (kind, shared.at_target()) == ("share", 17)
    assert shared.fakes.target.group_states["billing"] == ("Share", "Empty")
