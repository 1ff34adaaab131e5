"""Test datastreams that share tasks if one must not copy a topic that another one may copy."""

from __future__ import annotations

import pytest

from mirror.coordination.routes.routes import RouteVerdict
from mirror.model.datastreams.datastream import StartPosition
from mirror.model.identifiers import DatastreamName
from tests.builders import a_datastream, a_key
from tests.fakes.site import Site

A, B = DatastreamName("a"), DatastreamName("b")
METADATA = {"owner": "tests", "system.taskPrefix": "both"}


def starts(site: Site) -> dict[str, StartPosition]:
    """Return the start positions of the lanes by partition."""
    lanes = site.follower.workers.lanes
    return {str(key.partition): state.spec.start for key, state in lanes.items()}


@pytest.mark.parametrize(
    "verdict", [RouteVerdict({A: "a loop"}, {}), RouteVerdict({}, {A: {"t": "another writes it"}})]
)
def test_a_lane_is_described_by_the_datastream_that_may_copy_it(verdict: RouteVerdict) -> None:
    site = Site()
    site.create("a", start="latest", metadata=METADATA)
    # The API rejects such a datastream, but earlier versions accepted it, and an import still does.
    site.definitions.create(a_datastream("b", "t", metadata=METADATA))
    site.tick()
    assert starts(site) == {"t-0": StartPosition.LATEST, "t-1": StartPosition.LATEST}
    site.leader.judge_by(verdict)
    epoch = site.follower.follower.epoch
    site.tick(4)
    assert site.follower.follower.epoch == epoch + 1, "a single new plan"
    assert starts(site) == {"t-0": StartPosition.EARLIEST, "t-1": StartPosition.EARLIEST}
    site.leader.fleet_planner.judgement = site.leader.watch.check
    site.tick(4)
    assert starts(site) == {"t-0": StartPosition.LATEST, "t-1": StartPosition.LATEST}
    assert a_key("t-0", "both") in site.follower.workers.lanes
