"""Alerts about problems that the service itself reports."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

from mirror.errors import HeadraceError
from mirror.loggers import get_logger
from monitor.alerts.alert import Alert

_log = get_logger(__name__)
_Fact = TypeVar("_Fact")


class ServiceWatch(Generic[_Fact]):
    """Reads the state of the service for alerts in every evaluation. If this fails, earlier alerts
    continue."""

    def __init__(
        self, read: Callable[[], Sequence[_Fact]], alerts_of: Callable[[Sequence[_Fact]], Iterable[Alert]]
    ) -> None:
        self._read = read
        self._alerts_of = alerts_of
        self._known: Sequence[_Fact] = ()

    def alerts(self) -> list[Alert]:
        """Return the alerts about the service that fire now."""
        try:
            self._known = self._read()
        except HeadraceError as error:
            _log.warning("cannot read the service; alerts about it continue", reason=str(error))
        return [*self._alerts_of(self._known)]
