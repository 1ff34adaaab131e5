"""Thread that sends alerts to one receiver.

An unreachable, frozen or slow receiver does not delay the monitor or other receivers. An alert that the
monitor has not confirmed for the duration of a lease is not sent, because another monitor may have resolved
it. Nothing is sent while `may_tell` returns False: a monitor that was frozen must not send outdated alerts
after another monitor has taken over.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

from mirror.background_thread import BackgroundThread
from mirror.coordination.monitors.state import LEASE_SECONDS
from mirror.errors import InvalidRequest, Refused
from mirror.loggers import get_logger
from mirror.model.reasons import reason_of
from mirror.ports import Clock
from monitor.alerts.alert import AlertNotice
from monitor.alerts.alert_metrics import AlertMetrics
from monitor.alerts.deliveries.outbox import NEVER, Outbox
from monitor.alerts.deliveries.ports import Receiver, RetryLater

_log = get_logger(__name__)

_LONGEST_WAIT_SECONDS: Final = 3600.0


class Delivery(BackgroundThread):
    """Sends the alerts in an outbox to its receiver.

    `name`: name in logs and metrics. `takes_watchdog`: send the watchdog alert to this receiver. `may_tell`:
    returns whether this monitor is certainly the active one. `stop` sends the pending alerts once more;
    alerts that are not accepted by the deadline are dropped.
    """

    def __init__(
        self,
        name: str,
        receiver: Receiver,
        outbox: Outbox,
        clock: Clock,
        metrics: AlertMetrics,
        *,
        takes_watchdog: bool = False,
        may_tell: Callable[[], bool] = lambda: True,
    ) -> None:
        super().__init__(f"alerts to {name}")
        self.name = name
        self.takes_watchdog = takes_watchdog
        self.failure = ""
        """Reason why the last attempt failed. Empty if it succeeded, or if no alert is left to send.
        Thread-safe."""
        self._receiver = receiver
        self._outbox = outbox
        self._clock = clock
        self._metrics = metrics
        self._may_tell = may_tell
        self._changed = threading.Condition()
        self._offered_at = -NEVER
        self._trouble = ""
        metrics.watch(name, self._waiting)

    def wake(self) -> None:
        """Make the receiver's thread check for new alerts."""
        with self._changed:
            self._changed.notify()

    def offer(self, firing: Mapping[str, AlertNotice], ended: Iterable[AlertNotice]) -> None:
        """Queue all firing alerts, and the alerts that have resolved, for this receiver. Does not block."""
        with self._changed:
            self._offered_at = self._clock.monotonic()
            dropped = self._outbox.offer(firing, ended, self._offered_at)
            if self._outbox.next_at() == NEVER:
                self.failure = ""
            self._changed.notify()
        if dropped:
            _log.error("alert queue full", receiver=self.name, alerts=dropped)
            self._metrics.count_dropped(self.name, dropped)

    def restore(self, notices: Iterable[AlertNotice], delivered: Collection[str]) -> None:
        """Continue with the alerts of a previous monitor. `delivered`: keys of the alerts that the receiver
        has accepted."""
        with self._changed:
            self._outbox.restore(notices, delivered, self._clock.monotonic())

    @property
    def accepted(self) -> frozenset[str]:
        """Keys of those firing alerts that the receiver has accepted."""
        with self._changed:
            return self._outbox.accepted

    def _waiting(self) -> int:
        with self._changed:
            return self._outbox.waiting

    def _run(self) -> None:
        while notices := self._next():
            self._attempt(notices)

    def _next(self) -> Sequence[AlertNotice]:
        """Wait until a message is due, and return its alerts; empty if the thread must stop and none are
        pending."""
        with self._changed:
            while True:
                now = self._clock.monotonic()
                is_confirmed = now - self._offered_at < LEASE_SECONDS and self._may_tell()
                is_last = self._stopping.is_set()
                notices = self._outbox.take(now, is_last=is_last) if is_confirmed else ()
                if notices or is_last:
                    return notices
                # A later evaluation confirms the alerts by offering them.
                next_at = self._outbox.next_at() if is_confirmed else NEVER
                self._changed.wait(None if next_at == NEVER else min(next_at - now, _LONGEST_WAIT_SECONDS))

    def _attempt(self, notices: Sequence[AlertNotice]) -> None:
        try:
            self._receiver.send(notices, self._clock.now_ms())
        except InvalidRequest as error:
            self._fail(notices, error, "receiver rejected the message")
            self.failure = ""
            with self._changed:
                self._outbox.rejected(notices, self._clock.monotonic())
        except Refused as error:
            self._fail(notices, error, "receiver rejects alerts")
            self.failure = reason_of(error)
            with self._changed:
                self._outbox.refused(self._clock.monotonic())
        except Exception as error:  # noqa: BLE001 - the bulkhead around one receiver
            self._fail(notices, error, "cannot deliver alerts")
            self.failure = reason_of(error)
            with self._changed:
                wait = error.retry_after if isinstance(error, RetryLater) else 0.0
                self._outbox.failed(self._clock.monotonic(), wait)
        else:
            self._succeed(notices)

    def _succeed(self, notices: Sequence[AlertNotice]) -> None:
        with self._changed:
            self._outbox.delivered(notices, self._clock.monotonic())
        firing = sum(notice.is_firing for notice in notices)
        self.failure = ""
        self._metrics.count_sent(self.name, firing, len(notices) - firing)
        if self._trouble:
            _log.info("alert delivery recovered", receiver=self.name)
            self._trouble = ""

    def _fail(self, notices: Sequence[AlertNotice], error: Exception, event: str) -> None:
        """Count a failed delivery, and log it if it is the first or has a new reason."""
        self._metrics.count_failed(self.name, len(notices))
        reason = reason_of(error)
        if self._trouble != reason:
            _log.error(event, receiver=self.name, reason=reason, alerts=len(notices))
            self._trouble = reason
