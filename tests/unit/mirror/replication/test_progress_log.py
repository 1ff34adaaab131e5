"""Several that want to see the newest progress at the same moment."""

from __future__ import annotations

from typing import cast

from mirror.client.cluster import Cluster
from mirror.client.event_loop import Loop, Promise
from mirror.replication.progress_log import ProgressLog


class GatedProgressLog(ProgressLog):
    """A log of which only the looks at it count; each lasts until its gate is opened."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        super().__init__(cast(Cluster, self), "progress")
        self.gates: list[Promise[None]] = []

    async def _catch_up(self) -> None:
        self.gates.append(Promise[None]())
        await self.gates[-1]


def test_who_comes_during_a_look_waits_for_it_and_looks_once_more(loop: Loop) -> None:
    log = GatedProgressLog(loop)
    first, second = loop.spawn(log.catch_up()), loop.spawn(log.catch_up())
    assert len(log.gates) == 1
    log.gates[0].resolve(None)
    for _ in range(4):
        loop.run_once(0.0)
    assert (first.is_done, second.is_done, len(log.gates)) == (True, False, 2)
    log.gates[1].resolve(None)
    for _ in range(4):
        loop.run_once(0.0)
    assert second.is_done


def test_who_comes_when_a_look_has_just_ended_looks_at_once(loop: Loop) -> None:
    log = GatedProgressLog(loop)
    first = loop.spawn(log.catch_up())
    log.gates[0].resolve(None)
    loop.run_once(0.0)
    assert not first.is_done, "the look is over, and who waited for it has not been told yet"
    second = loop.spawn(log.catch_up())
    assert len(log.gates) == 2
    log.gates[1].resolve(None)
    for _ in range(4):
        loop.run_once(0.0)
    assert (first.is_done, second.is_done) == (True, True)
