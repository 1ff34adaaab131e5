"""Alerts about facts that the service reports."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Generic, TypeVar

import structlog

from mirror.bulkheads import Bulkhead
from mirror.model.reasons import reason_of
from monitor.alerts.alert import Alert, AlertKey

_log = structlog.get_logger(__name__)
_Fact = TypeVar("_Fact")


class ServiceWatch(Generic[_Fact]):
    """Reads facts for alerts in every evaluation. After a failed read, the previous alerts continue.

    `read`: returns the facts, and whether every instance has responded. If not, previous alerts also continue
    beside the alerts about the facts. The alerts of other sources are never affected.
    """

    def __init__(
        self,
        read: Callable[[], tuple[Sequence[_Fact], bool]],
        alerts_of: Callable[[Sequence[_Fact]], Iterable[Alert]],
    ) -> None:
        self._read = read
        self._alerts_of = alerts_of
        self._known: Mapping[AlertKey, Alert] = {}

    def alerts(self) -> list[Alert]:
        """Return the alerts about the service that fire now."""
        with Bulkhead(_log_failure):
            facts, is_complete = self._read()
            found = {alert.key: alert for alert in self._alerts_of(facts)}
            self._known = found if is_complete else {**self._known, **found}
        return [*self._known.values()]


def _log_failure(error: Exception) -> None:
    _log.warning("cannot read the service; alerts about it continue", reason=reason_of(error))
