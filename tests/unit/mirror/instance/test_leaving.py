"""Test followers that leave, and owners that do not release their lanes."""

from __future__ import annotations

import pytest

from mirror.coordination.stores.membership import Membership
from tests.builders import a_task
from tests.fakes.instances import HANDOVER_DEADLINE_SECONDS, SESSION_TIMEOUT_SECONDS, FollowerRig
from tests.fakes.planned import MINE, THEIRS, Service


@pytest.fixture
def service() -> Service:
    return Service()


def test_one_that_wants_to_go_says_so_and_stays_until_its_tasks_have_moved(service: Service) -> None:
    one, two = FollowerRig(service.server, "one"), FollowerRig(service.server, "two")
    service.publish(MINE, THEIRS)
    one.run_loop(2)
    two.run_loop(2)
    one.workers.inbox.put("leave")
    one.run_loop(2)
    assert [each.is_leaving for each in Membership(two.session).live()] == [True, False]
    assert one.lanes == ["t-0", "t-1"]
    assert not one.follower.has_drained
    service.publish(a_task("orders-0", ["t-0", "t-1"], "two"), THEIRS)
    one.run_loop(2)
    assert not one.follower.has_drained
    one.workers.drain()
    one.run_loop()
    assert one.follower.has_drained
    two.run_loop(2)
    assert two.lanes == ["t-0", "t-1", "t-2"]


def test_one_that_is_alone_or_among_leavers_has_nobody_to_hand_over_to(service: Service) -> None:
    rigs = [FollowerRig(service.server, name) for name in ("one", "two")]
    service.publish(MINE, THEIRS)
    for rig in rigs:
        rig.run_loop(2)
        rig.workers.inbox.put("leave")
    for rig in [*rigs, *rigs]:
        rig.run_loop()
    assert all(rig.follower.has_drained for rig in rigs)
    assert rigs[0].lanes == ["t-0", "t-1"]


def test_one_without_a_session_has_nothing_to_hand_over(service: Service) -> None:
    rig = FollowerRig(service.server)
    rig.run_loop()
    rig.suspend()
    rig.clock.advance(SESSION_TIMEOUT_SECONDS)
    rig.workers.inbox.put("leave")
    rig.run_loop()
    assert rig.follower.has_drained


def test_a_lane_that_is_not_released_in_time_is_taken(service: Service) -> None:
    one, two = FollowerRig(service.server, "one"), FollowerRig(service.server, "two")
    service.publish(MINE, THEIRS)
    one.run_loop(2)
    two.run_loop(2)
    service.publish(a_task("orders-0", ["t-0"], "one"), a_task("orders-1", ["t-1", "t-2"], "two"))
    one.run_loop(2)
    two.run_loop(2)
    two.clock.advance(HANDOVER_DEADLINE_SECONDS - 1)
    two.contact.moment = two.clock.monotonic()
    two.run_loop()
    assert two.lanes == ["t-2"]
    two.clock.advance(1)
    two.contact.moment = two.clock.monotonic()
    two.run_loop()
    assert two.lanes == ["t-1", "t-2"]
