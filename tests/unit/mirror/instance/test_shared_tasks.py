"""Datastreams that share tasks, of which one must not copy what another one may."""

from __future__ import annotations

import pytest

from mirror.coordination.routing.routes import RouteVerdict
from mirror.model.datastreams.datastream import StartPosition
from mirror.model.identifiers import DatastreamName
from tests.builders import a_datastream, a_key
from tests.fakes.site import Site

A, B = DatastreamName("a"), DatastreamName("b")
METADATA = {"owner": "tests", "system.taskPrefix": "both"}


def starts(site: Site) -> dict[str, StartPosition]:
    """How the lanes here were described, by partition."""
    lanes = site.follower.workers.lanes
    return {str(key.partition): state.spec.start for key, state in lanes.items()}


@pytest.mark.parametrize(
    "verdict", [RouteVerdict({A: "a loop"}, {}), RouteVerdict({}, {A: {"t": "another writes it"}})]
)
def test_a_lane_is_described_by_the_datastream_that_may_copy_it(verdict: RouteVerdict) -> None:
    site = Site()
    site.create("a", start="latest", metadata=METADATA)
    # Nobody may join so any more; former versions let them, and an import does.
    site.definitions.create(a_datastream("b", "t", metadata=METADATA))
    site.tick()
    assert starts(site) == {"t-0": StartPosition.LATEST, "t-1": StartPosition.LATEST}
    site.leader.judge_by(verdict)
    epoch = site.follower.follower.epoch
    site.tick(4)
    assert site.follower.follower.epoch == epoch + 1, "one plan says so, and no more"
    assert starts(site) == {"t-0": StartPosition.EARLIEST, "t-1": StartPosition.EARLIEST}
    site.leader.world_view.judgement = site.leader.watch.look
    site.tick(4)
    assert starts(site) == {"t-0": StartPosition.LATEST, "t-1": StartPosition.LATEST}
    assert a_key("t-0", "both") in site.follower.workers.lanes
