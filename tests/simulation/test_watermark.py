"""Test the watermark of a continuous audit under seeded faults: it is never ahead of what has arrived."""

from __future__ import annotations

from typing import Final

import pytest

from mirror.client.access import ClusterAccess, endpoints
from mirror.errors import HeadraceError
from mirror.jobs.watch_job import AuditWatch
from mirror.model.datastreams.policy import OnRejection
from mirror.replication.context import EngineContext, EngineIdentity
from mirror.replication.options import CopyingOptions
from tests.fakes.broker.contents import committed
from tests.fakes.broker.virtual import VirtualSelector
from tests.simulation.run import AUDIT, Simulation
from tests.simulation.schedule import Event, Plan, plan

_RUNS: Final = 20
_IN_EACH: Final = 2
_REQUEST_SECONDS: Final = 2.0


def plans() -> list[Plan]:
    """Return the first plans in which no record is skipped on purpose."""
    found: list[Plan] = []
    seed = 0
    while len(found) < _RUNS:
        made = plan(seed)
        seed += 1
        if made.policy.on_rejection is OnRejection.PAUSE:
            found.append(made)
    return found


class WatchedSimulation(Simulation):
    """A run with an audit that runs after each event, and a check of its statement."""

    def __init__(self, wanted: Plan) -> None:
        super().__init__(wanted)
        self._watch = AuditWatch(AUDIT)
        self.statements = 0
        """Number of checked statements."""

    def _happen(self, event: Event) -> None:
        super()._happen(event)
        self._run(1.0)  # an audit moves the time of the events ahead, in which the engine does not run
        self.run_audit()

    def run_audit(self) -> None:
        """Audit with connections of its own, and compare the statement with both logs."""
        fakes = self.fakes
        access = {
            AUDIT.source: ClusterAccess(endpoints(fakes.source.address)),
            AUDIT.destination: ClusterAccess(endpoints(fakes.target.address)),
        }
        context = EngineContext(
            access.__getitem__,
            CopyingOptions(request_timeout_seconds=_REQUEST_SECONDS),
            EngineIdentity("audit"),
            fakes.clock,
            VirtualSelector(fakes.clock, [fakes.source, fakes.target]),
        )
        context.loop.new_socket = fakes.network.socket
        try:
            context.run(self._watch.run_once(context))
        except HeadraceError:
            return  # a broker does not respond: the run is repeated after the next event
        finally:
            context.close()
        self._check_statement()

    def _check_statement(self) -> None:
        through = self._watch.watermarks.through(0)
        if through is None:
            return
        self.statements += 1
        for number in range(self.plan.partitions):
            there = {one.content for one in self.fakes.copied("t", number)}
            for one in committed(self.fakes.source.log("t", number)):
                is_stated = one.timestamp < through
                assert not is_stated or one.content in there, f"t-{number}: {one} is not there"


@pytest.mark.parametrize(
    "part", [0, *(pytest.param(n, marks=pytest.mark.deep) for n in range(1, _RUNS // _IN_EACH))]
)
def test_the_watermark_is_never_ahead(part: int) -> None:
    statements = 0
    for made in plans()[part * _IN_EACH : (part + 1) * _IN_EACH]:
        run = WatchedSimulation(made)
        run.carry_out()
        statements += run.statements
    assert statements
