"""Requests rebalances within the limits of the policy, and gives the reason for each result."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import Final, NamedTuple

from mirror.bulkheads import Bulkhead
from mirror.coordination.monitors.effect import PlacementEffect
from mirror.errors import Busy, InvalidRequest, LoadUnavailable, Refused, VersionConflict
from mirror.loggers import get_logger
from mirror.model.bounds import LONGEST_REASON
from mirror.model.datastreams.objectives import Mode
from mirror.model.identifiers import DatastreamName
from mirror.model.reasons import reason_of
from mirror.ports import Clock
from monitor.actions import (
    ActingPolicy,
    ActionOutcome,
    ActionRecord,
    PredictedSaving,
    decide,
    reason_against,
    worth_of,
)
from monitor.ports import Service

_log = get_logger(__name__)
_REJECTIONS: Final = (InvalidRequest, VersionConflict, Busy, Refused)
"""Errors with which the service rejects a request. After any other error, the service may have queued it."""


class RequestOutcome(Enum):
    """Result of an attempt to request a rebalance."""

    ACTED = "acted"
    """A decision about the rebalance was made. The next attempt follows after the cool-down.

    The rebalance was requested, possibly without a response, was only reported (mode `observe`), or is not
    worthwhile.
    """
    NOT_NOW = "not now"
    """A rebalance is currently not permitted. The next attempt follows in the next evaluation."""


class RequestResult(NamedTuple):
    """Result of a rebalance request, with its reason. An unchanged reason has the same sentence."""

    done: RequestOutcome
    sentence: str
    worth: PredictedSaving | None = None
    """Predicted saving of a requested rebalance."""
    states_cause: bool = False
    """True if the report should include the cause of the breach."""


class Rebalancing:
    """Requests rebalances within the limits, based on the record of rebalances last passed to `note`."""

    def __init__(self, service: Service, policy: ActingPolicy, clock: Clock) -> None:
        self._service = service
        self._policy = policy
        self._clock = clock
        self._record = ActionRecord()
        self._last_rebalanced = ""

    def note(self, record: ActionRecord | None) -> None:
        """Replace the record of recent rebalances by that of the service. None if the service has no such
        record: then only rebalances by this monitor count."""
        if record is not None:
            self._record = record

    def begin(self) -> None:
        """Prepare for an evaluation of all datastreams. From now on, the record passed to `note` shows
        whether the last request is still pending."""
        self._last_rebalanced = ""

    def help(self, name: DatastreamName, mode: Mode | None, why: str, open_seconds: float) -> RequestResult:
        """Request a rebalance if the policy and a dry run allow it.

        `mode`: mode of the datastream. `why`: reason to store with the request. `open_seconds`: duration of
        the breach so far. Raises HeadraceError if no rebalance was requested. A request whose response is
        lost counts as made, because a repeated request would start a second rebalance.
        """
        record = replace(self._record, waiting=self._record.waiting or self._last_rebalanced)
        against = reason_against(self._policy, record, name, self._clock.now_ms())
        if against:
            return RequestResult(RequestOutcome.NOT_NOW, f"no rebalance requested: {against}")
        preview = self._service.preview_rebalance(name)
        if not preview.loads_known:
            raise LoadUnavailable(
                "partition loads are unknown, so the effect of a rebalance cannot be predicted"
            )
        effect = preview.effect or PlacementEffect(preview.moves)
        worth = worth_of(effect, preview.past, open_seconds)
        decision = decide(mode or self._policy.mode, preview.moves, preview.sentence, worth)
        if decision.outcome is not ActionOutcome.ACTS:
            return RequestResult(RequestOutcome.ACTED, decision.sentence)
        identity = ""
        with Bulkhead(through=_REJECTIONS) as requesting:
            identity = self._service.rebalance(name, why[:LONGEST_REASON])
        self._record, self._last_rebalanced = self._record.acted(name, self._clock.now_ms()), name
        if requesting.failure is not None:
            lost = reason_of(requesting.failure)
            _log.error("no response to a rebalance request", datastream=name, reason=lost)
            sentence = f"rebalance requested without a response ({lost}): {decision.sentence}"
            return RequestResult(RequestOutcome.ACTED, sentence, worth)
        _log.info("rebalance requested", datastream=name, request=identity, would=preview.sentence)
        return RequestResult(
            RequestOutcome.ACTED, f"rebalance {identity} requested: {decision.sentence}", worth
        )
