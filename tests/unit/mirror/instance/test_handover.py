"""A lane that the plan moves, from an instance that does not release it."""

from __future__ import annotations

from tests.builders import a_task
from tests.fakes.instances import HANDOVER_DEADLINE_SECONDS, SESSION_TIMEOUT_SECONDS, FollowerRig
from tests.fakes.planned import MINE, THEIRS, Service

STEP_SECONDS = SESSION_TIMEOUT_SECONDS / 2
"""Within a lease."""


def moving() -> FollowerRig:
    """The instance that is to have `t-1`, which another one still runs. It does not turn any more."""
    service = Service()
    one, two = FollowerRig(service.server, "one"), FollowerRig(service.server, "two")
    service.publish(MINE, THEIRS)
    for rig in (one, two):
        rig.turn()
    service.publish(a_task("orders-0", ["t-0"], "one"), a_task("orders-1", ["t-1", "t-2"], "two"))
    two.turn()
    assert two.lanes == ["t-2"]
    return two


def test_it_is_taken_over_at_the_deadline_and_not_before() -> None:
    two = moving()
    for _ in range(int(HANDOVER_DEADLINE_SECONDS / STEP_SECONDS) - 1):
        two.clock.advance(STEP_SECONDS)
        two.turn()
        assert two.lanes == ["t-2"]
    two.clock.advance(STEP_SECONDS)
    two.turn()
    assert two.lanes == ["t-1", "t-2"]


def test_the_holdings_of_others_are_read_behind_a_sync_that_follows_the_own_one() -> None:
    two = moving()
    names = {f"/holdings/i-{0:010}": "other", f"/holdings/i-{1:010}": "own"}
    steps = [names.get(one.path, one.name) for one in two.session.log]
    behind = steps[len(steps) - steps[::-1].index("own") :]
    assert behind.index("sync") < behind.index("other")
