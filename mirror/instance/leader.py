"""The leader's duties: look at the world once a tick, publish a plan when it should differ.

Every instance runs this thread; it acts only while the instance has the lowest sequence. A tick
returns one sentence that says what was decided and why; it is logged when it changes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import structlog

from mirror.control.lifecycle import next_status
from mirror.coordination.definitions import StoredDatastream
from mirror.coordination.events import EventLog, plan_events
from mirror.coordination.membership import LiveInstance, leader_of
from mirror.coordination.plan_store import NO_PLAN, StoredPlan
from mirror.coordination.planning import Decision, is_planned
from mirror.errors import CoordinationError, HeadraceError, Refused, Unreachable
from mirror.instance.health import Health
from mirror.instance.outlook import Outlook
from mirror.model.datastream import Datastream, DatastreamStatus
from mirror.model.metrics import PlacementEvent
from mirror.model.plan import Plan
from mirror.ports import Clock

_log = structlog.get_logger(__name__)
_PREPARED: Final = frozenset({DatastreamStatus.INITIALIZING, DatastreamStatus.READY})
"""States in which the destination's topics are looked after."""


class Leader:
    """One thread, started by `start` and ended by `stop`."""

    def __init__(
        self,
        outlook: Outlook,
        events: EventLog,
        publish_events: Callable[[Sequence[PlacementEvent]], None],
        clock: Clock,
        health: Health,
        tick_interval_seconds: float,
    ) -> None:
        self._outlook = outlook
        self._stores = outlook.stores
        self._events = events
        self._publish_events = publish_events
        self._clock = clock
        self._health = health
        self._interval = tick_interval_seconds
        self._me: LiveInstance | None = None
        self._plan: StoredPlan = NO_PLAN
        self._is_leading = False
        self._stopping = threading.Event()
        self._awake = threading.Event()
        self._thread = threading.Thread(target=self._run, name="leader")
        self._sentence = ""
        self._parts: set[str] = set()
        self._untold: tuple[Plan, tuple[PlacementEvent, ...]] | None = None

    @property
    def is_leading(self) -> bool:
        """Whether the last tick was a leader's."""
        return self._is_leading

    @property
    def sentence(self) -> str:
        """What the last tick decided."""
        return self._sentence

    def joined(self, me: LiveInstance | None) -> None:
        """Who we are among the live ones; None: nobody. Called from the follower's thread."""
        self._me = me
        self._awake.set()

    def wake(self) -> None:
        """Something in the shared state changed. Called by watches, from any thread."""
        self._awake.set()

    def start(self) -> None:
        """Begin to tick."""
        self._thread.start()

    def stop(self, deadline_seconds: float) -> None:
        """End the thread. Safe to call twice."""
        self._stopping.set()
        self._awake.set()
        if self._thread.ident is not None:
            self._thread.join(deadline_seconds)

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._say(self._try_tick())
                self._awake.wait(self._interval)
                self._awake.clear()
        except Exception as error:  # noqa: BLE001 - the top of a service loop
            _log.exception("the leader thread died")
            self._health.died("leader", error)

    def _try_tick(self) -> str:
        try:
            return self.tick()
        except (Unreachable, CoordinationError) as error:
            self._plan = NO_PLAN
            return f"will look again: {error}"
        except HeadraceError as error:
            return f"no new plan: {error}"

    def tick(self) -> str:
        """One look at the world. Raises HeadraceError when it cannot be finished."""
        me = self._me
        leader = leader_of(self._stores.membership.live(self.wake))
        self._is_leading = me is not None and leader is not None and leader.sequence == me.sequence
        if me is None or not self._is_leading:
            self._forget_all_but(())
            return f"{leader.name if leader else 'nobody'} leads"
        self._outlook.surroundings.ensure_own_topics()
        self._plan = self._stores.plans.read(self._plan)
        self._tell()
        stored = self._stores.definitions.all(self.wake)
        self._outlook.surroundings.topics(sorted({one.datastream.source for one in stored}))
        stored = self._settle(stored)
        world = self._outlook.world(stored, self._plan, self.wake)
        decision = self._outlook.decide(world)
        for group, problem in decision.problems.items():
            _log.error("keeps its tasks", datastream=group, reason=problem)
        self._publish(decision, me)
        for request in world.requests:
            self._stores.requests.take(request)
        self._remove_deleted(stored)
        return decision.sentence

    def _settle(self, stored: Sequence[StoredDatastream]) -> tuple[StoredDatastream, ...]:
        """Prepare destinations, and carry datastreams over the states that only the leader ends."""
        datastreams = [one.datastream for one in stored]
        self._forget_all_but([one for one in datastreams if one.status in _PREPARED])
        return tuple(self._settle_one(one, datastreams) for one in stored)

    def _settle_one(self, stored: StoredDatastream, all_of_them: Sequence[Datastream]) -> StoredDatastream:
        datastream = stored.datastream
        if datastream.status in _PREPARED:
            self._prepare(datastream)
        if datastream.status is DatastreamStatus.INITIALIZING:
            return self._change(stored, "activate")
        is_over = datastream.status is DatastreamStatus.STOPPING
        if is_over and not is_planned(datastream, all_of_them, self._plan.plan):
            return self._change(stored, "settle")
        return stored

    def _change(self, stored: StoredDatastream, action: str) -> StoredDatastream:
        changed = replace(stored.datastream, status=next_status(stored.datastream, action))
        self._stores.definitions.replace(stored, changed)
        _log.info("datastream changed", datastream=changed.name, status=changed.status.value)
        return StoredDatastream(changed, stored.version + 1)

    def _prepare(self, datastream: Datastream) -> None:
        try:
            for work in self._outlook.surroundings.prepare_destination(datastream):
                _log.info(
                    "destination topic made" if work.create else "destination topic grown",
                    datastream=datastream.name,
                    topic=work.topic.name,
                    partitions=work.topic.partitions,
                    cluster=work.cluster,
                )
        except (Refused, Unreachable) as error:
            self._health.report(_part(datastream), False, str(error))
        else:
            self._health.report(_part(datastream), True, str(datastream.status))
        self._parts.add(_part(datastream))

    def _forget_all_but(self, datastreams: Sequence[Datastream]) -> None:
        """What is not mirrored, or not led by us, is not our health."""
        kept = {_part(one) for one in datastreams}
        for part in self._parts - kept:
            self._health.forget(part)
        self._parts &= kept

    def _publish(self, decision: Decision, me: LiveInstance) -> None:
        if decision.plan is None:
            return
        group_plans = tuple(decision.group_plans.values())
        self._untold = decision.plan, plan_events(decision.plan, decision.moves, group_plans, me.name)
        self._plan = self._stores.plans.publish(decision.plan, self._plan)
        self._tell()

    def _tell(self) -> None:
        """Tell of our newest plan if it is in force; its publication may have broken off in between."""
        if self._untold is None:
            return
        plan, events = self._untold
        if plan == self._plan.plan:
            self._events.append(events)
            self._publish_events(events)
        self._untold = None

    def _remove_deleted(self, stored: Sequence[StoredDatastream]) -> None:
        datastreams = [one.datastream for one in stored]
        for one in stored:
            is_over = one.datastream.status is DatastreamStatus.DELETING
            if is_over and not is_planned(one.datastream, datastreams, self._plan.plan):
                self._stores.definitions.remove(one.datastream.name)
                _log.info("datastream deleted", datastream=one.datastream.name)

    def _say(self, sentence: str) -> None:
        if sentence != self._sentence:
            _log.info(sentence, plan=self._plan.plan.epoch)
        self._sentence = sentence
        self._health.report("leader", True, sentence)


def _part(datastream: Datastream) -> str:
    return f"datastream {datastream.name}"
