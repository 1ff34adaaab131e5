"""The thread of one receiver: it may be away, frozen or slow, and nobody else waits for it.

What no turn of the monitor has confirmed for as long as a lease lasts is told to nobody: another monitor may
judge by then, and have told the end of it. Nor is what `may_tell` forbids: nobody hears of what was before
from a monitor that was frozen, if only for as long as ZooKeeper takes to give its place to another one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

import structlog

from mirror.coordination.acting.state import LEASE_SECONDS
from mirror.errors import InvalidRequest, Refused, reason_of
from mirror.ports import Clock
from monitor.alerts.alert import Notice
from monitor.alerts.deliveries.outbox import NEVER, Outbox
from monitor.alerts.deliveries.ports import Receiver, ToldToWait
from monitor.alerts.metrics import AlertMetrics

_log = structlog.get_logger(__name__)

_LONGEST_WAIT_SECONDS: Final = 3600.0


class Delivery:
    """Brings one receiver what its outbox holds. `name`: as logs and metrics call it. `takes_watchdog`:
    whether it is to hear that the monitor judges. `may_tell`: whether this monitor surely judges."""

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
        self.name = name
        self.takes_watchdog = takes_watchdog
        self.away = ""
        """Why it took nothing at the last attempt; empty where it did, or was not asked. For any thread."""
        self._receiver = receiver
        self._outbox = outbox
        self._clock = clock
        self._metrics = metrics
        self._may_tell = may_tell
        self._changed = threading.Condition()
        self._is_stopping = False
        self._offered_at = -NEVER
        self._trouble = ""
        self._thread = threading.Thread(target=self._run, name=f"alerts to {name}", daemon=True)
        metrics.watch(name, self._waiting)

    def start(self) -> None:
        """Begin to deliver."""
        self._thread.start()

    def stop(self, deadline_seconds: float) -> None:
        """Try once what waits, and end; what the receiver does not take in time is given up."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify()
        if self._thread.ident is not None:
            self._thread.join(deadline_seconds)

    def offer(self, firing: Mapping[str, Notice], ended: Iterable[Notice]) -> None:
        """Everything that fires now, and what has ended. Returns at once."""
        with self._changed:
            self._offered_at = self._clock.monotonic()
            dropped = self._outbox.offer(firing, ended, self._offered_at)
            self._changed.notify()
        if dropped:
            _log.error("no room for alerts", receiver=self.name, alerts=dropped)
            self._metrics.count_dropped(self.name, dropped)

    def restore(self, notices: Iterable[Notice], told: Collection[str]) -> None:
        """Continue with alerts of a former monitor. `told`: keys of those that the receiver has taken."""
        with self._changed:
            self._outbox.restore(notices, told, self._clock.monotonic())

    @property
    def told(self) -> frozenset[str]:
        """Keys of the firing alerts that the receiver has taken."""
        with self._changed:
            return self._outbox.told

    def _waiting(self) -> int:
        with self._changed:
            return self._outbox.waiting

    def _run(self) -> None:
        while notices := self._next():
            self._attempt(notices)

    def _next(self) -> Sequence[Notice]:
        """The next message, when it is due; nothing in the end."""
        with self._changed:
            while True:
                now = self._clock.monotonic()
                is_confirmed = now - self._offered_at < LEASE_SECONDS and self._may_tell()
                notices = self._outbox.take(now, is_last=self._is_stopping) if is_confirmed else ()
                if notices or self._is_stopping:
                    return notices
                # What is not confirmed now is by a later turn, which offers it.
                next_at = self._outbox.next_at() if is_confirmed else NEVER
                self._changed.wait(None if next_at == NEVER else min(next_at - now, _LONGEST_WAIT_SECONDS))

    def _attempt(self, notices: Sequence[Notice]) -> None:
        try:
            self._receiver.send(notices, self._clock.now_ms())
        except InvalidRequest as error:
            self._fail(notices, error, "alerts are refused as they are")
            self.away = ""
            with self._changed:
                self._outbox.delivered(notices, self._clock.monotonic())
        except Refused as error:
            self._fail(notices, error, "the receiver of alerts refuses them")
            self.away = reason_of(error)
            with self._changed:
                self._outbox.refused(self._clock.monotonic())
        except Exception as error:  # noqa: BLE001 - the bulkhead around one receiver
            self._fail(notices, error, "alerts cannot be delivered")
            self.away = reason_of(error)
            with self._changed:
                wait = error.retry_after if isinstance(error, ToldToWait) else 0.0
                self._outbox.failed(self._clock.monotonic(), wait)
        else:
            self._succeed(notices)

    def _succeed(self, notices: Sequence[Notice]) -> None:
        with self._changed:
            self._outbox.delivered(notices, self._clock.monotonic())
        firing = sum(one.is_firing for one in notices)
        self.away = ""
        self._metrics.count_sent(self.name, firing, len(notices) - firing)
        if self._trouble:
            _log.info("alerts are delivered again", receiver=self.name)
            self._trouble = ""

    def _fail(self, notices: Sequence[Notice], error: Exception, what: str) -> None:
        """A line when it begins and when its reason changes, not one for each attempt."""
        self._metrics.count_failed(self.name, len(notices))
        reason = reason_of(error)
        if self._trouble != reason:
            _log.error(what, receiver=self.name, reason=reason, alerts=len(notices))
            self._trouble = reason
