"""Interfaces of alert delivery."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from mirror.errors import Unreachable
from monitor.alerts.alert import AlertNotice


class RetryLater(Unreachable):
    """The receiver requests a retry after `retry_after` seconds."""

    def __init__(self, message: str, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Receiver(Protocol):
    """A receiver of alerts. Called by one thread at a time."""

    def send(self, notices: Sequence[AlertNotice], now_ms: int) -> None:
        """Send a group of alerts within the timeout of the receiver.

        Raises Unreachable if a retry may succeed; RetryLater if the receiver says when to retry; Refused if
        an operator must change the configuration; InvalidRequest if the receiver will never accept this
        message.
        """
        ...
