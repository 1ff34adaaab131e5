"""Thread of the leader that computes the load forecast and the sizing advice periodically."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Final

from headrace.foresight.history import AskLoads, PastHours
from headrace.foresight.sizing_advisor import History, Means, SizingAdvisor
from headrace.foresight.sums import AskSums, PastSums, SumQuery
from headrace.settings import HeadraceSettings
from mirror.background_thread import BackgroundThread
from mirror.bulkheads import Bulkhead
from mirror.errors import HeadraceError, HistoryUnavailable
from mirror.instance.health import Health
from mirror.instance.loads.advice_store import AdviceStore
from mirror.instance.loads.expectation import ExpectedLoads
from mirror.loggers import get_logger
from mirror.model.capacity.advice import Advice, sentence_with_age
from mirror.model.reasons import reason_of
from mirror.ports import Clock

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from api.services import Services
    from assigner.what_if.document import Fallback
    from headrace.foresight.history import Loads
    from mirror.instance.loads.assessments import Assessment
    from mirror.model.datastreams.datastream import Datastream
    from mirror.model.identifiers import ClusterRef, GroupName
    from mirror.model.load import LoadSums

_log = get_logger(__name__)
PART: Final = "advice"
"""Component of the health report for sizing advice."""
_LOOK_SECONDS: Final = 1.0
_AGAIN_SECONDS: Final = 60.0
"""Maximum seconds until the next computation after a failure or an unknown need.

Also the minimum time between computations after changes of tasks, instances or datastreams.
"""
_COMPARE_SECONDS: Final = 10.0


class ForesightThread(BackgroundThread):
    """Computes the sizing advice periodically, and after a change of tasks, instances or datastreams.

    One call of `run_once` computes the current need and the forecast, the following calls the need of past
    hours. A failed computation is reported as unhealthy and retried. Other threads are not affected.
    """

    def __init__(
        self,
        advisor: SizingAdvisor,
        is_leading: Callable[[], bool],
        interval_seconds: float,
        health: Health,
        clock: Clock,
    ) -> None:
        super().__init__("foresight")
        self._advisor = advisor
        self._is_leading = is_leading
        self._interval = interval_seconds
        self._again = min(_AGAIN_SECONDS, interval_seconds)
        self._health = health
        self._clock = clock
        self._next = self._compare_at = -math.inf
        self._computed_at = -math.inf
        self._shape: object = None
        self._is_well = False
        self._has_led = False
        self._advice: Advice | None = None

    @property
    def advice(self) -> Advice | None:
        """Latest sizing advice, or None if this instance is not the leader. Thread-safe."""
        return self._advice

    def run_once(self) -> None:
        """Compute the sizing advice if it is due. Drop the state if the instance no longer leads."""
        if not self._is_leading():
            if self._has_led:
                self._advisor.forget()
                self._health.forget(PART)
                self._has_led, self._next, self._advice = False, -math.inf, None
            return
        self._has_led = True
        now = self._clock.monotonic()
        if now < self._next and not self._has_changed(now):
            if self._advisor.has_past_left:
                self._go_on()
            self._report()
            return
        self._computed_at = now
        with Bulkhead(self._failed):
            self._shape = self._advisor.shape()
            self._show(self._advisor.present())
            self._show(self._advisor.forecast())
            is_known = self._advice is not None and self._advice.required_tasks is not None
            self._next = self._clock.monotonic() + (self._interval if is_known else self._again)

    def _failed(self, error: Exception) -> None:
        self._next, self._is_well = self._clock.monotonic() + self._again, False
        self._health.report(PART, False, f"cannot compute advice: {reason_of(error)}")
        _log.warning("cannot compute sizing advice", reason=reason_of(error))

    def _show(self, advice: Advice) -> None:
        self._advice, self._is_well = advice, True
        self._report()

    def _go_on(self) -> None:
        """Continue to compute how many tasks past hours required. If this fails, store the advice without
        past hours."""
        advice: Advice | None = None
        try:
            with Bulkhead() as computing:
                advice = self._advisor.past()
            if computing.failure is not None:
                _log.warning(
                    "cannot compute the tasks that past hours required", reason=reason_of(computing.failure)
                )
                advice = self._advisor.abandon_past()
        except HeadraceError as error:
            _log.warning("cannot store sizing advice", reason=reason_of(error))
        else:
            self._advice = advice or self._advice

    def _report(self) -> None:
        """Report the age of the sizing advice in the health of the instance, unless the last computation has
        failed."""
        if self._advice is not None and self._is_well:
            sentence = sentence_with_age(self._advice, self._clock.now_ms())
            self._health.report(PART, True, sentence)

    def _has_changed(self, now: float) -> bool:
        """Return whether tasks, instances or datastreams have changed since the last computation."""
        if now < max(self._compare_at, self._computed_at + self._again):
            return False
        self._compare_at = now + _COMPARE_SECONDS
        try:
            return self._advisor.shape() != self._shape
        except HeadraceError:
            return False  # the next computation reports the error

    def _run(self) -> None:
        while not self._stopping.wait(_LOOK_SECONDS):
            self.run_once()


def build_foresight(
    settings: HeadraceSettings,
    services: Services,
    store: AdviceStore,
    expected: ExpectedLoads,
    health: Health,
) -> ForesightThread:
    """Build the thread that computes sizing advice. Only groups planned with loads from Pinot use past
    loads."""
    advice = settings.assigner.advice
    advisor = SizingAdvisor(
        Means(
            services,
            store,
            expected,
            advice,
            _fallback(settings, services.assessments),
            _history(settings),
            settings.mirror.leader.load_provider,
        )
    )
    return ForesightThread(
        advisor, lambda: services.status.is_leading, advice.interval_seconds, health, services.clock
    )


def _history(settings: HeadraceSettings) -> History:
    """Return the reader of past loads in Pinot.

    The client of Pinot is imported on first use. The methods of the history raise HistoryUnavailable if it is
    not installed, and the errors of the query.
    """

    @cache
    def pinot() -> tuple[AskSums, AskLoads]:
        try:
            from headrace.foresight.pinot_hours import loads_of_pinot, sums_of_pinot
        except ModuleNotFoundError as error:
            raise HistoryUnavailable(
                f"cannot read history: {error.name} is not installed", advice="install headrace[pmp]"
            ) from error
        return sums_of_pinot(settings), loads_of_pinot(settings)

    def sums(cluster: ClusterRef, query: SumQuery, since_ms: int, until_ms: int) -> Mapping[int, LoadSums]:
        return pinot()[0](cluster, query, since_ms, until_ms)

    def loads(cluster: ClusterRef, since_ms: int, until_ms: int) -> Loads:
        return pinot()[1](cluster, since_ms, until_ms)

    return History(PastSums(sums, settings.assigner.advice.history_days), PastHours(loads))


def _fallback(
    settings: HeadraceSettings, assessments: Callable[[], Mapping[GroupName, Assessment]]
) -> Callable[[Sequence[Datastream]], Fallback]:
    """Return a function that maps a group's datastreams to their task capacity and planning policy.

    The capacity comes from the last plan of the group, by default from the settings.
    """

    def how(members: Sequence[Datastream]) -> Fallback:
        from assigner.what_if.document import Fallback

        group = members[0].group
        found = assessments().get(group)
        capacity = (
            found.capacity.capacity if found and found.capacity else settings.mirror.leader.task_capacity
        )
        return Fallback(capacity, settings.assigner.unknown_load(), settings.assigner.policy())

    return how
