"""Catalogue of alerts. Each alert has a page in docs/runbooks/
(tests/unit/monitor/alerts/test_runbooks.py)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from monitor.alerts.alert import AlertKind, Severity
from monitor.movement.summary import NEAR_SECONDS

_TIME: Final[Mapping[str, int]] = {"ge": 0}

LATE: Final = AlertKind("HeadraceLatencyObjectiveBreached", Severity.CRITICAL)
"""Records arrive later than the datastream's objective allows; an incident is open."""
HALTED: Final = AlertKind("HeadraceDatastreamHalted", Severity.CRITICAL)
"""Part of a datastream is not copied."""
UNJUDGED: Final = AlertKind("HeadraceDatastreamUnjudged", Severity.WARNING)
"""The monitor cannot determine whether a datastream meets its objective."""
BLIND: Final = AlertKind("HeadraceNothingJudged", Severity.CRITICAL)
"""The service or its measurements are unavailable to the monitor, so no datastream can be evaluated."""

BURNING: Final = AlertKind("HeadraceErrorBudgetBurning", Severity.CRITICAL)
"""An error budget burns faster than allowed, both over a long and over a short window."""
WEARING: Final = AlertKind("HeadraceErrorBudgetWearing", Severity.WARNING)
"""An error budget burns so fast that it will be exhausted before its period ends."""

LOSS_AHEAD: Final = AlertKind("HeadraceDataLossAhead", Severity.CRITICAL)
"""The source will delete records before they are copied."""
STALLED: Final = AlertKind("HeadracePartitionsStalled", Severity.CRITICAL)
"""Partitions have records to read, but their positions do not advance."""
STOPPED: Final = AlertKind("HeadracePartitionsStopped", Severity.CRITICAL)
"""Partitions have no task, or their task does not report."""
REWOUND: Final = AlertKind("HeadracePartitionsRewound", Severity.WARNING)
"""Records are copied to the destination a second time."""
PAUSED: Final = AlertKind("HeadracePartitionsPausedThemselves", Severity.CRITICAL)
"""Lanes have paused because of an error and need an operator."""
SOURCE_AWAY: Final = AlertKind("HeadraceSourceAway", Severity.CRITICAL)
"""A source cluster does not respond: one alert for all of its datastreams."""
DESTINATION_AWAY: Final = AlertKind("HeadraceDestinationAway", Severity.CRITICAL)
"""A destination cluster does not respond: one alert for all of its datastreams."""
PROCESS_LOST: Final = AlertKind("HeadraceProcessLost", Severity.CRITICAL)
"""Records have been late since an instance or a worker process was lost: one alert for all datastreams."""
BROKERS_THROTTLE: Final = AlertKind("HeadraceBrokersThrottle", Severity.CRITICAL)
"""Brokers of a cluster throttle, so records are late: one alert for all of its datastreams."""
TRUNCATED: Final = AlertKind("HeadraceSourceTruncated", Severity.CRITICAL)
"""The source cluster has lost records, which may or may not have been copied before the loss."""
RECREATED: Final = AlertKind("HeadraceTopicRecreated", Severity.CRITICAL)
"""The source topic was deleted and created again."""
TRANSACTION: Final = AlertKind("HeadraceTransactionOpen", Severity.WARNING)
"""An open transaction at the source has blocked all waiting records for a long time."""
CATCHING_UP: Final = AlertKind("HeadraceCatchingUp", Severity.WARNING)
"""Partitions have been catching up for a long time."""
LONG_PAUSE: Final = AlertKind("HeadraceLongPause", Severity.WARNING)
"""An operator paused partitions long ago."""

TIMESTAMPS: Final = AlertKind("HeadraceWrongTimestamps", Severity.WARNING)
"""A datastream appears to miss its objective only because its producers write wrong timestamps."""

RECEIVER_AWAY: Final = AlertKind("HeadraceReceiverAway", Severity.CRITICAL)
"""A receiver does not accept messages with alerts. The alert is sent to the other receivers."""
RESIZE: Final = AlertKind("HeadraceResizeRecommended", Severity.WARNING)
"""The load or its forecast requires more instances than the service has."""
CANARY_LOST: Final = AlertKind("HeadraceCanaryLost", Severity.CRITICAL)
"""Canary records that the source acknowledged have not arrived at the destination."""
CANARY_UNAVAILABLE: Final = AlertKind("HeadraceCanaryUnavailable", Severity.WARNING)
"""Canary records cannot be written, or do not arrive in time."""
AUDIT_DIFFERENCE: Final = AlertKind("HeadraceAuditDifference", Severity.CRITICAL)
"""An audit has found unexplained differences between records at the source and at the destination."""
TOPIC_RETIREMENT: Final = AlertKind("HeadraceTopicRetirement", Severity.WARNING)
"""A topic is sealed and can be deleted after a waiting time."""
WATCHDOG: Final = AlertKind("HeadraceWatchdog", Severity.NONE)
"""Always fires while the monitor runs and reaches Alertmanager."""
OF_ITSELF: Final = frozenset(
    {RECEIVER_AWAY, WATCHDOG, RESIZE, CANARY_LOST, CANARY_UNAVAILABLE, AUDIT_DIFFERENCE, TOPIC_RETIREMENT}
)
"""Alerts about the monitor itself and the service, independent of objectives."""

CATALOGUE: Final = tuple(kind for kind in tuple(globals().values()) if isinstance(kind, AlertKind))
"""All alerts, in the order of this module."""

OF_CLUSTERS: Final = frozenset({SOURCE_AWAY, DESTINATION_AWAY, PROCESS_LOST, BROKERS_THROTTLE})
"""Kinds of alerts about several datastreams."""
OF_PARTITIONS: Final = OF_CLUSTERS | {
    LOSS_AHEAD,
    STALLED,
    STOPPED,
    REWOUND,
    PAUSED,
    TRUNCATED,
    RECREATED,
    TRANSACTION,
    CATCHING_UP,
    LONG_PAUSE,
}
"""Kinds of alerts about partitions, raised for datastreams with and without an objective."""


class ClockReading(NamedTuple):
    """Current time of two clocks: epoch milliseconds for display, monotonic seconds for durations."""

    ms: int
    seconds: float


@dataclass(frozen=True)
class AlertTimes:
    """Times after which alerts fire or resolve, set by operators. The metadata of each field contains the
    bounds of its value, named as in pydantic."""

    halted_after_seconds: float = field(default=30.0, metadata=_TIME)
    """Time for which a part of a datastream must not have been copied before HeadraceDatastreamHalted fires,
    and for which records must have been late before HeadraceLatencyObjectiveBreached fires."""
    unjudged_after_seconds: float = field(default=600.0, metadata=_TIME)
    """HeadraceDatastreamUnjudged fires when a datastream has had no verdict for this time."""
    blind_after_seconds: float = field(default=60.0, metadata=_TIME)
    """Time for which the service or its measurements must have been unavailable before HeadraceNothingJudged
    fires."""
    partitions_after_seconds: float = field(default=60.0, metadata=_TIME)
    """Time for which partitions must have been stalled, paused on an error or waiting for a cluster before
    alerts about partitions fire."""
    transaction_after_seconds: float = field(default=900.0, metadata=_TIME)
    """HeadraceTransactionOpen fires when an open transaction has blocked a partition for this time. Brokers
    abort transactions after at most `transaction.max.timeout.ms` (15 minutes by default)."""
    catching_up_after_seconds: float = field(default=1_800.0, metadata=_TIME)
    """Time for which partitions must have been catching up after a pause, an outage or the creation of the
    datastream before HeadraceCatchingUp fires."""
    paused_after_seconds: float = field(default=86_400.0, metadata=_TIME)
    """HeadraceLongPause fires when partitions have been paused by an operator for this time."""
    loss_after_seconds: float = field(default=20.0, metadata=_TIME)
    """Time for which a loss of uncopied records must have been predicted before HeadraceDataLossAhead
    fires."""
    loss_within_seconds: float = field(default=NEAR_SECONDS, metadata=_TIME)
    """HeadraceDataLossAhead fires only if the predicted loss is at most this time away."""
    loss_least_share: float = field(default=0.1, metadata={"ge": 0, "le": 1})
    """Minimum backlog, as a share of the source's log, at which HeadraceDataLossAhead fires."""
    receiver_after_seconds: float = field(default=120.0, metadata=_TIME)
    """Time for which a receiver must have accepted no alerts before HeadraceReceiverAway is sent to the other
    receivers."""
    resize_after_seconds: float = field(default=600.0, metadata=_TIME)
    """Time for which the load or its forecast must have required more instances than are live before
    HeadraceResizeRecommended fires. Instances that are leaving do not count as live."""
    recovered_after_seconds: float = field(default=180.0, metadata=_TIME)
    """Time for which the objective must have been met before HeadraceLatencyObjectiveBreached resolves. The
    incident remains open for `monitor.close_seconds`."""
    keep_seconds: float = field(default=60.0, metadata=_TIME)
    """An alert resolves when its condition has been absent for this time. A condition with shorter
    interruptions therefore causes a single alert."""


@dataclass(frozen=True)
class AlertPatience(AlertTimes):
    """Times for which the condition of an alert must last before the alert fires or resolves.

    `burnt_seconds`: time after the alert of an incident for which short windows of error budgets still
    contain the incident. `late_seconds`: time for which records must be late without interruption.
    """

    burnt_seconds: float = 2_100.0
    late_seconds: float = 0.0

    def before(self, kind: AlertKind) -> float:
        """Return the seconds for which a condition must last before an alert of this kind fires."""
        waits = {
            HALTED: self.halted_after_seconds,
            LATE: self.late_seconds,
            UNJUDGED: self.unjudged_after_seconds,
            BLIND: self.blind_after_seconds,
            TRANSACTION: self.transaction_after_seconds,
            CATCHING_UP: self.catching_up_after_seconds,
            LOSS_AHEAD: self.loss_after_seconds,
            RECEIVER_AWAY: self.receiver_after_seconds,
            RESIZE: self.resize_after_seconds,
            CANARY_UNAVAILABLE: self.partitions_after_seconds,
        }
        return waits.get(kind, self.partitions_after_seconds if kind in OF_PARTITIONS else 0.0)

    def after(self, kind: AlertKind) -> float:
        """Return the seconds for which a condition must be absent before an alert of this kind resolves."""
        if kind is LATE:
            return self.recovered_after_seconds
        return (
            self.keep_seconds
            if kind in (HALTED, UNJUDGED, CANARY_UNAVAILABLE, AUDIT_DIFFERENCE) or kind in OF_PARTITIONS
            else 0.0
        )
