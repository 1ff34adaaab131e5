"""What alerts need from the world."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from mirror.errors import Unreachable
from monitor.alerts.alert import Notice


class ToldToWait(Unreachable):
    """The receiver answers that it wants to be asked later."""

    def __init__(self, message: str, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Receiver(Protocol):
    """What is called. One thread at a time."""

    def send(self, notices: Sequence[Notice], now_ms: int) -> None:
        """One message. Returns within a time of its own.

        Raises Unreachable where it may be tried again, ToldToWait, Refused where a person has to change
        something, InvalidRequest for a message that will never be taken as it is.
        """
        ...
