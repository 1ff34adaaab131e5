"""Asks for a rebalance, where the policy lets it, and says what it did or why not."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import NamedTuple

import structlog

from mirror.coordination.acting.effect import PlacementEffect
from mirror.errors import LoadUnavailable
from mirror.model.bounds import LONGEST_REASON
from mirror.model.datastreams.objectives.mode import Mode
from mirror.model.identifiers import DatastreamName
from mirror.ports import Clock
from monitor.actions.policy import ActingPolicy, Outcome, Record, decide, reason_against
from monitor.actions.worth import Worth, worth_of
from monitor.ports import Service

_log = structlog.get_logger(__name__)


class Done(Enum):
    """What became of it."""

    ACTED = "acted"
    """Also where it would have acted, and where that would not help: asked again after the cool-down."""
    NOT_NOW = "not now"
    """Asked again at the next turn."""


class Help(NamedTuple):
    """What was done, as a sentence that is the same for as long as its reason lasts."""

    done: Done
    sentence: str
    worth: Worth | None = None
    """What was predicted of a rebalance that was asked for."""
    says_cause: bool = False
    """Whether the cause is to be said with it."""


class Rebalancing:
    """Knows what the service has of acting as of the last `note`."""

    def __init__(self, service: Service, policy: ActingPolicy, clock: Clock) -> None:
        self._service = service
        self._policy = policy
        self._clock = clock
        self._record = Record()
        self._asked = ""

    def note(self, record: Record | None) -> None:
        """What the service knows of acting now; None: nothing, so that what was done here counts alone."""
        if record is not None:
            self._record = record

    def begin(self) -> None:
        """Another turn: whether what was asked for in the last one still waits, the service says."""
        self._asked = ""

    def help(self, name: DatastreamName, mode: Mode | None, why: str, open_seconds: float) -> Help:
        """`mode`: of the datastream; `why`: for the events; `open_seconds`: how long the breach has lasted.
        Raises HeadraceError."""
        record = replace(self._record, waiting=self._record.waiting or self._asked)
        against = reason_against(self._policy, record, name, self._clock.now_ms())
        if against:
            return Help(Done.NOT_NOW, f"no rebalance is asked for: {against}")
        preview = self._service.preview_rebalance(name)
        if not preview.loads_known:
            raise LoadUnavailable("nothing is known of the loads, so nobody can say whether it would help")
        effect = preview.effect or PlacementEffect(preview.moves)
        worth = worth_of(effect, preview.past, open_seconds)
        decision = decide(mode or self._policy.mode, preview.moves, preview.sentence, worth)
        if decision.outcome is not Outcome.ACTS:
            return Help(Done.ACTED, decision.sentence)
        identity = self._service.rebalance(name, why[:LONGEST_REASON])
        self._record, self._asked = self._record.acted(name, self._clock.now_ms()), name
        _log.info("rebalance asked for", datastream=name, request=identity, would=preview.sentence)
        return Help(Done.ACTED, f"rebalance {identity} asked for: {decision.sentence}", worth)
