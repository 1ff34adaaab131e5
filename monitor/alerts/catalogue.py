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

CATALOGUE: Final = (LATE, HALTED, UNJUDGED, BLIND, BURNING, WEARING)
