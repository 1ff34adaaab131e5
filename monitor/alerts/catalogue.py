"""Every alert there is. Each has a page in docs/runbooks/ (tests/unit/monitor/alerts/test_runbooks.py)."""

from __future__ import annotations

from typing import Final

from monitor.alerts.alert import AlertKind, Severity

LATE: Final = AlertKind("HeadraceLatencyObjectiveBreached", Severity.CRITICAL)
"""An incident is open: records arrive later than the datastream's objective allows."""
HALTED: Final = AlertKind("HeadraceDatastreamHalted", Severity.CRITICAL)
"""Something of a datastream is not copied."""
UNJUDGED: Final = AlertKind("HeadraceDatastreamUnjudged", Severity.WARNING)
"""Nobody can say whether a datastream meets its objective."""
BLIND: Final = AlertKind("HeadraceNothingJudged", Severity.CRITICAL)
"""The service, or what measures it, does not answer the monitor: nothing is known of any datastream."""

BURNING: Final = AlertKind("HeadraceErrorBudgetBurning", Severity.CRITICAL)
"""An objective's error budget is used up too fast, in a long window and still in a short one."""
WEARING: Final = AlertKind("HeadraceErrorBudgetWearing", Severity.WARNING)
"""An objective's error budget does not last for its period."""

LOSS_AHEAD: Final = AlertKind("HeadraceDataLossAhead", Severity.CRITICAL)
"""The source will delete records before they are copied."""
STALLED: Final = AlertKind("HeadracePartitionsStalled", Severity.CRITICAL)
"""There is something to read, and positions stay."""
STOPPED: Final = AlertKind("HeadracePartitionsStopped", Severity.CRITICAL)
"""Nobody copies partitions, or who should says nothing."""
REWOUND: Final = AlertKind("HeadracePartitionsRewound", Severity.WARNING)
"""Records are written once more."""
PAUSED: Final = AlertKind("HeadracePartitionsPausedThemselves", Severity.CRITICAL)
"""Lanes have paused, and a person has to do something."""
SOURCE_AWAY: Final = AlertKind("HeadraceSourceAway", Severity.CRITICAL)
"""A source cluster does not answer: one alert for all of its datastreams."""
DESTINATION_AWAY: Final = AlertKind("HeadraceDestinationAway", Severity.CRITICAL)
"""Likewise of a destination."""
TRUNCATED: Final = AlertKind("HeadraceSourceTruncated", Severity.CRITICAL)
"""The source has lost what was not copied, or what was."""
RECREATED: Final = AlertKind("HeadraceTopicRecreated", Severity.CRITICAL)
"""The source's topic is another one than was copied."""
TRANSACTION: Final = AlertKind("HeadraceTransactionOpen", Severity.WARNING)
"""An open transaction at the source hides all that waits, for long."""
CATCHING_UP: Final = AlertKind("HeadraceCatchingUp", Severity.WARNING)
"""Partitions come nearer to the end of their source, and have not reached it for long."""

RECEIVER_AWAY: Final = AlertKind("HeadraceReceiverAway", Severity.CRITICAL)
"""Somebody who is to be called cannot be called; the others are told."""
WATCHDOG: Final = AlertKind("HeadraceWatchdog", Severity.NONE)
"""The monitor judges, and Alertmanager hears of it: always firing."""
RESIZE: Final = AlertKind("HeadraceResizeRecommended", Severity.WARNING)
"""The load, or its forecast, needs more instances than stay."""
OF_ITSELF: Final = frozenset({RECEIVER_AWAY, WATCHDOG, RESIZE})
"""Alerts that do not depend on what a turn finds of datastreams."""

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
    TRUNCATED,
    RECREATED,
    TRANSACTION,
    CATCHING_UP,
    RECEIVER_AWAY,
    RESIZE,
    WATCHDOG,
)
