"""Detects late responses of a broker on one connection."""

from __future__ import annotations

from math import inf
from typing import Final

from mirror.client.request import Request

PATIENCE_SECONDS: Final = 5.0
"""Seconds of delay from which on an outstanding response counts as an outage."""
SLOWEST_LINK: Final = 256 * 1024
"""Minimum bandwidth in bytes/s at which a full response arrives within the request timeout."""


class Promptness:
    """Detects responses on one connection that are late by `PATIENCE_SECONDS` or more.

    After a late response, the broker counts as late until a response is on time. Times are monotonic seconds.
    `sent_at`: due time of a response without transfer and processing, which is the send time of the request
    plus the wait that it allows.
    """

    __slots__ = (
        "_accepted_bytes",
        "_until",
        "accepted_at",
        "patience",
        "seconds",
        "silent_since",
        "since",
        "usual",
    )

    def __init__(self) -> None:
        self.since = inf
        """Due time of the first of several late responses in a row; infinity while responses are prompt."""
        self.seconds = 0.0
        """Approximate delay of responses in seconds; updated only if the delay has halved or doubled."""
        self.usual = PATIENCE_SECONDS
        """Seconds from the due time of the latest response until its last byte; infinity if it was late,
        `PATIENCE_SECONDS` before the first one."""
        self.patience = PATIENCE_SECONDS
        """Delay of a response after which a second connection shows whether the broker is silent."""
        self._accepted_bytes, self.accepted_at = 0, 0.0
        """Bytes that the broker's host has acknowledged, and when it acknowledged the latest."""
        self._until = inf
        self.silent_since = inf
        """Monotonic time since which earlier connections got no response; infinity after a response."""

    def answered(self, sent_at: float, now: float, size: int) -> None:
        """Handle the arrival of a response of `size` bytes."""
        took = now - sent_at - size / SLOWEST_LINK
        self.silent_since = inf
        if took < PATIENCE_SECONDS:
            self.since, self.seconds, self.usual = inf, 0.0, max(now - sent_at, 0.0)
            self.patience = PATIENCE_SECONDS
            return
        self.usual = inf
        self.since = min(self.since, sent_at)
        self._until = now + PATIENCE_SECONDS
        if not self.seconds / 2 < took < self.seconds * 2:
            self.seconds = took

    def replicated(self, took: float) -> None:
        """Handle the arrival of a Produce response `took` seconds after the request's replication timeout."""
        self.silent_since = inf
        if took < PATIENCE_SECONDS:
            self.since, self.patience = inf, PATIENCE_SECONDS

    def accepted(self, acknowledged_bytes: int, now: float) -> None:
        """Store how many bytes of requests the broker's host has acknowledged."""
        if acknowledged_bytes != self._accepted_bytes:
            self._accepted_bytes, self.accepted_at = acknowledged_bytes, now

    def is_overdue(self, request: Request, due: float, heard_at: float, now: float) -> bool:
        """Return whether the response to the oldest request, due at `due`, is much later than expected.
        `heard_at`: time of the latest response."""
        if request.replication_seconds is not None:
            # A broker processes requests in order, and a slow network is still transferring this request.
            since = max(due, heard_at, self.accepted_at) + request.replication_seconds
            return now - since >= self.patience
        return now - due >= self.patience + self.usual

    def continue_from(self, former: Promptness, since: float, now: float) -> None:
        """Start as silent since `since`, like the previous connection to the broker, until a response is on
        time. Doubles the delay after which a response is overdue, because the broker may be slow."""
        self.since, self._until, self.patience = since, now + PATIENCE_SECONDS, 2 * former.patience
        self.silent_since = min(since, former.silent_since)

    def silence(self, sent_at: float, now: float) -> tuple[float, str]:
        """Return when the broker's response became late, and a description.

        `sent_at`: due time of the oldest outstanding response; infinity without one. A slow broker without
        further requests soon stops counting as slow.
        """
        if self.since == inf or (sent_at == inf and now >= self._until):
            return sent_at, "does not respond"
        is_worse = not self.seconds or now - sent_at >= 2 * self.seconds
        return self.since, "does not respond" if is_worse else f"responds after {self.seconds:.0f} s"
