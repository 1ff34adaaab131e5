"""Tracks which brokers of a cluster are unreachable, silent or slow, and since when.

Logs one line when an outage starts and one when it ends, regardless of the number of attempts. The end of an
outage also wakes everything that waits for the cluster.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from math import inf
from typing import Final

from mirror.errors import HeadraceError
from mirror.model.clusters import address_of
from mirror.protocol.control.cluster import Endpoint
from mirror.repeats import RepeatedErrors

_log = logging.getLogger(__name__)
_FIRST_BACKOFF: Final = 0.05
_LONGEST_BACKOFF: Final = 0.5
_MOST_DOUBLINGS: Final = 10
_SILENT: Final = "silent"
"""Kind of outage: refused connections and missing responses are one kind; failed authentication is
another."""
PATIENCE_SECONDS: Final = 5.0
"""Time after which an outstanding request counts as an outage."""
SLOWEST_LINK: Final = 256 * 1024
"""Minimum bandwidth in bytes per second; below it, a full response cannot arrive within the request
timeout."""


class Promptness:
    """Detects whether the responses of a connection are much later than requested.

    A late response counts until a prompt one arrives, since the next one may be just as late. Times are
    monotonic seconds; `sent_at` is when the response was due, not counting transfer and the broker's own time.
    """

    __slots__ = ("_until", "seconds", "since")

    def __init__(self) -> None:
        self.since = inf
        """Due time of the first in a row of late responses; infinity while responses are prompt."""
        self.seconds = 0.0
        """Approximate delay; updated only if it halves or doubles."""
        self._until = inf

    def answered(self, asked: float, now: float, size: int) -> None:
        """Record a response of `size` bytes."""
        took = now - asked - size / SLOWEST_LINK
        if took < PATIENCE_SECONDS:
            self.since, self.seconds = inf, 0.0
            return
        self.since = min(self.since, asked)
        self._until = now + PATIENCE_SECONDS
        if not self.seconds / 2 < took < self.seconds * 2:
            self.seconds = took

    def silence(self, asked: float, now: float) -> tuple[float, str]:
        """Return since when the broker is late and a description, given the oldest due time (infinity: none).

        A broker without further requests soon stops counting as slow.
        """
        if self.since == inf or (asked == inf and now >= self._until):
            return asked, "does not answer"
        is_worse = now - asked >= 2 * self.seconds
        return self.since, "does not answer" if is_worse else f"answers after {self.seconds:.0f} s"


class Reachability:
    """Reachability of the brokers of one cluster. Times are monotonic seconds."""

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self._failures: dict[Endpoint, int] = {}
        self._trying: dict[Endpoint, float] = {}
        self._errors: dict[Endpoint, str] = {}
        self._outages = RepeatedErrors[str]()
        self._returned: float | None = None

    def tries(self, endpoint: Endpoint, now: float) -> float:
        """Record a connection attempt and return the seconds to wait before it."""
        self._trying.setdefault(endpoint, now)
        failures = self._failures.get(endpoint, 0)
        return min(_FIRST_BACKOFF * 2 ** (failures - 1), _LONGEST_BACKOFF) if failures else 0.0

    def failed(self, endpoint: Endpoint, error: HeadraceError, now: float) -> None:
        """Record a failed connection attempt."""
        self._failures[endpoint] = min(self._failures.get(endpoint, 0) + 1, _MOST_DOUBLINGS)
        self._errors[endpoint] = error.message
        kind = _SILENT if error.retriable else type(error).__name__
        self._note_outage(_name(endpoint), kind, error.message, now)

    def opened(self, endpoint: Endpoint, now: float) -> None:
        """Record an open connection whose broker has responded."""
        self._failures.pop(endpoint, None)
        self._trying.pop(endpoint, None)
        self._errors.pop(endpoint, None)
        self._note_end(_name(endpoint), now)

    def swept(self, waiting: Mapping[str, tuple[float, str]], now: float) -> None:
        """Update outages from open connections.

        `waiting`: by address, since when responses are missing or late (infinity: neither), and a
        description.
        """
        attempted = {_name(endpoint) for endpoint in self._trying}
        for endpoint, since in self._trying.items():
            if now - since >= PATIENCE_SECONDS and endpoint not in self._errors:
                self._note_outage(_name(endpoint), _SILENT, f"{_name(endpoint)} does not answer", now)
        for name, (since, how) in waiting.items():
            if now - since >= PATIENCE_SECONDS:
                self._note_outage(name, _SILENT, f"{name} accepts connections and {how}", now)
            elif name not in attempted:
                self._note_end(name, now)

    def keep(self, endpoints: Iterable[Endpoint]) -> None:
        """Keep only these brokers; no connections to others will be attempted."""
        for gone in self._trying.keys() - set(endpoints):
            del self._trying[gone]
            self._outages.succeeded(_name(gone), 0.0)

    def silence(self) -> tuple[float, str]:
        """Return the start and reason of the longest outage of a broker; (infinity, "") if none."""
        if not self._trying:
            return inf, ""
        endpoint = min(self._trying, key=self._trying.__getitem__)
        return self._trying[endpoint], self._errors.get(endpoint, f"{_name(endpoint)} does not answer")

    def take_returned(self) -> float | None:
        """Return the earliest start of the outages that ended since the last call; None if none ended."""
        returned, self._returned = self._returned, None
        return returned

    def _note_outage(self, name: str, kind: str, reason: str, now: float) -> None:
        if self._outages.failed(name, kind, now):
            _log.warning(
                "cluster %s: %s; retrying until it answers (further failures are not logged)",
                self._cluster,
                reason,
            )

    def _note_end(self, name: str, now: float) -> None:
        ended = self._outages.succeeded(name, now)
        if ended is not None:
            _log.warning("cluster %s: %s answers again after %.1f s", self._cluster, name, ended.seconds)
            began = now - ended.seconds - PATIENCE_SECONDS
            self._returned = began if self._returned is None else min(self._returned, began)


def _name(endpoint: Endpoint) -> str:
    return address_of(endpoint.host, endpoint.port)
