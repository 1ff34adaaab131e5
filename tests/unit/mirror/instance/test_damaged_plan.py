"""Test a damaged commit marker of the plan with two whole instances.

Running lanes continue, and both instances apply the plan that the leader publishes as its replacement.
"""

from __future__ import annotations

import pytest

from mirror.coordination.stores.plan_store import NO_PLAN
from tests.fakes.node_store import FakeZooKeeper
from tests.fakes.site import Site


@pytest.mark.parametrize("data", [b"", b"?", b"{}"])
@pytest.mark.parametrize("is_new", [False, True], ids=["leader", "new leader"])
def test_no_lane_stops_and_everybody_obeys_the_next_plan(data: bytes, is_new: bool) -> None:
    server = FakeZooKeeper()
    one, two = Site(server, "one"), Site(server, "two")
    for site in (one, two):
        site.tick()
    one.create(limits={"min_tasks": 2})
    for _ in range(3):
        two.tick()
        one.tick()
    lanes = {site: dict(site.follower.workers.lanes) for site in (one, two)}
    assert all(len(found) == 1 for found in lanes.values())
    session = server.session()
    session.write("/plan", data, session.read("/plan").version)
    two.follower.run_loop()
    if is_new:
        plan = one.leader.leader._plan
        plan._stored, plan._newest = NO_PLAN, NO_PLAN.plan
    for _ in range(3):
        one.tick()
        two.tick()
    epochs = {site.follower.follower.epoch for site in (one, two)}
    assert len(epochs) == 1
    assert epochs == {one.leader.leader._plan.current.epoch}
    for site in (one, two):
        assert {key: state.spec for key, state in site.follower.workers.lanes.items()} == {
            key: state.spec for key, state in lanes[site].items()
        }
