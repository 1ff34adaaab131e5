"""Catalogue of alerts. Each alert has a page in docs/runbooks/
(tests/unit/monitor/alerts/test_runbooks.py)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from monitor.alerts.alert import AlertKind, Severity
from monitor.movement.summary import NEAR_SECONDS

LATE: Final = AlertKind("HeadraceLatencyObjectiveBreached", Severity.CRITICAL)
"""Records arrive later than the datastream's objective allows; an incident is open."""
HALTED: Final = AlertKind("HeadraceDatastreamHalted", Severity.CRITICAL)
"""Part of a datastream is not copied."""
UNJUDGED: Final = AlertKind("HeadraceDatastreamUnjudged", Severity.WARNING)
"""The monitor cannot determine whether a datastream meets its objective."""
BLIND: Final = AlertKind("HeadraceNothingJudged", Severity.CRITICAL)
"""The monitor cannot reach the service or its measurements, so no datastream can be evaluated."""

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
"""Records are copied a second time."""
PAUSED: Final = AlertKind("HeadracePartitionsPausedThemselves", Severity.CRITICAL)
"""Lanes have paused because of an error and need an operator."""
SOURCE_AWAY: Final = AlertKind("HeadraceSourceAway", Severity.CRITICAL)
"""A source cluster does not respond: one alert for all of its datastreams."""
DESTINATION_AWAY: Final = AlertKind("HeadraceDestinationAway", Severity.CRITICAL)
"""A destination cluster does not respond: one alert for all of its datastreams."""
PROCESS_LOST: Final = AlertKind("HeadraceProcessLost", Severity.CRITICAL)
"""Records are late since an instance or a worker process was lost: one alert for all datastreams."""
BROKERS_THROTTLE: Final = AlertKind("HeadraceBrokersThrottle", Severity.CRITICAL)
"""Records are late because brokers of a cluster throttle: one alert for all of its datastreams."""
TRUNCATED: Final = AlertKind("HeadraceSourceTruncated", Severity.CRITICAL)
"""The source cluster has lost records, which may or may not have been copied before the loss."""
RECREATED: Final = AlertKind("HeadraceTopicRecreated", Severity.CRITICAL)
"""The source topic was deleted and created again."""
TRANSACTION: Final = AlertKind("HeadraceTransactionOpen", Severity.WARNING)
"""For a long time, an open transaction at the source has blocked the copying of all waiting records."""
CATCHING_UP: Final = AlertKind("HeadraceCatchingUp", Severity.WARNING)
"""Partitions have been catching up for a long time."""
LONG_PAUSE: Final = AlertKind("HeadraceLongPause", Severity.WARNING)
"""An operator paused partitions long ago."""

TIMESTAMPS: Final = AlertKind("HeadraceWrongTimestamps", Severity.WARNING)
"""A datastream appears to miss its objective only because its producers write wrong timestamps."""

RECEIVER_AWAY: Final = AlertKind("HeadraceReceiverAway", Severity.CRITICAL)
"""A receiver does not accept alerts. The alert is sent to the other receivers."""
WATCHDOG: Final = AlertKind("HeadraceWatchdog", Severity.NONE)
"""Always fires while the monitor runs and reaches Alertmanager."""
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
OF_ITSELF: Final = frozenset(
    {RECEIVER_AWAY, WATCHDOG, RESIZE, CANARY_LOST, CANARY_UNAVAILABLE, AUDIT_DIFFERENCE, TOPIC_RETIREMENT}
)
"""Alerts that do not depend on the evaluation of objectives."""

CATALOGUE: Final = (
    LATE,
    HALTED,
    UNJUDGED,
    BLIND,
    BURNING,
    WEARING,
    LOSS_AHEAD,
    STALLED,
    STOPPED,
    REWOUND,
    PAUSED,
    SOURCE_AWAY,
    DESTINATION_AWAY,
    PROCESS_LOST,
    BROKERS_THROTTLE,
    TRUNCATED,
    RECREATED,
    TRANSACTION,
    CATCHING_UP,
    LONG_PAUSE,
    TIMESTAMPS,
    RECEIVER_AWAY,
    RESIZE,
    CANARY_LOST,
    CANARY_UNAVAILABLE,
    AUDIT_DIFFERENCE,
    TOPIC_RETIREMENT,
    WATCHDOG,
)

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
    """Current time on both clocks: epoch milliseconds for display, monotonic seconds for durations."""

    ms: int
    seconds: float


@dataclass(frozen=True, slots=True)
class AlertPatience:
    """Times that determine when alerts fire and resolve. Most values are seconds for which a condition must
    last before its alert fires. `keep_seconds`: seconds for which a condition must be absent before its alert
    resolves. A predicted loss of data causes an alert only if it is at most `loss_within_seconds` away and
    the backlog is at least `loss_least_share` of the source's log. `burnt_seconds`: time after the alert of
    an incident during which short windows of error budgets still contain that incident. `late_seconds`: time
    for which records must be late continuously. `long_pause_seconds`: age at which a pause by an operator
    causes an alert."""

    halted_seconds: float = 30.0
    unjudged_seconds: float = 600.0
    blind_seconds: float = 60.0
    keep_seconds: float = 60.0
    partitions_seconds: float = 60.0
    transaction_seconds: float = 900.0
    loss_seconds: float = 20.0
    loss_within_seconds: float = NEAR_SECONDS
    receiver_seconds: float = 120.0
    catching_up_seconds: float = 1_800.0
    recovered_seconds: float = 180.0
    loss_least_share: float = 0.1
    resize_seconds: float = 600.0
    burnt_seconds: float = 2_100.0
    late_seconds: float = 0.0
    long_pause_seconds: float = 86_400.0

    def before(self, kind: AlertKind) -> float:
        """Return the seconds for which a condition must last before its alert fires."""
        waits = {
            HALTED: self.halted_seconds,
            LATE: self.late_seconds,
            UNJUDGED: self.unjudged_seconds,
            BLIND: self.blind_seconds,
            TRANSACTION: self.transaction_seconds,
            CATCHING_UP: self.catching_up_seconds,
            LOSS_AHEAD: self.loss_seconds,
            RECEIVER_AWAY: self.receiver_seconds,
            RESIZE: self.resize_seconds,
            CANARY_UNAVAILABLE: self.partitions_seconds,
        }
        return waits.get(kind, self.partitions_seconds if kind in OF_PARTITIONS else 0.0)

    def after(self, kind: AlertKind) -> float:
        """Return the seconds for which a condition must be absent before its alert resolves."""
        if kind is LATE:
            return self.recovered_seconds
        return (
            self.keep_seconds
            if kind in (HALTED, UNJUDGED, CANARY_UNAVAILABLE, AUDIT_DIFFERENCE) or kind in OF_PARTITIONS
            else 0.0
        )
