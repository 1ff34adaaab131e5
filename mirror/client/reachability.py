"""Which brokers of a cluster cannot be reached, or do not answer, and since when.

Reported in one line when that begins and one when it ends, whatever number of attempts lies between. The end
of such an outage also wakes everything that waits for the cluster.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from math import inf
from typing import Final

from mirror.errors import HeadraceError
from mirror.protocol.control.cluster import Endpoint
from mirror.repeats import RepeatedErrors

_log = logging.getLogger(__name__)
_FIRST_BACKOFF: Final = 0.05
_LONGEST_BACKOFF: Final = 0.5
_MOST_DOUBLINGS: Final = 10
_SILENT: Final = "silent"
"""A refused connection and a missing answer are one outage; that we are not let in is news."""
PATIENCE_SECONDS: Final = 5.0
"""A question that stays open for longer than this is an outage."""


class Reachability:
    """Of one cluster. Moments are monotonic seconds."""

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self._failures: dict[Endpoint, int] = {}
        self._trying: dict[Endpoint, float] = {}
        self._errors: dict[Endpoint, str] = {}
        self._outages = RepeatedErrors[str]()
        self._returned: float | None = None

    def tries(self, endpoint: Endpoint, now: float) -> float:
        """A connection is about to be opened: the seconds to wait before."""
        self._trying.setdefault(endpoint, now)
        failures = self._failures.get(endpoint, 0)
        return min(_FIRST_BACKOFF * 2 ** (failures - 1), _LONGEST_BACKOFF) if failures else 0.0

    def failed(self, endpoint: Endpoint, error: HeadraceError, now: float) -> None:
        """A connection could not be opened."""
        self._failures[endpoint] = min(self._failures.get(endpoint, 0) + 1, _MOST_DOUBLINGS)
        self._errors[endpoint] = error.message
        kind = _SILENT if error.retriable else type(error).__name__
        self._note_outage(_name(endpoint), kind, error.message, now)

    def opened(self, endpoint: Endpoint, now: float) -> None:
        """A connection is open, and the broker has answered on it."""
        self._failures.pop(endpoint, None)
        self._trying.pop(endpoint, None)
        self._errors.pop(endpoint, None)
        self._note_end(_name(endpoint), now)

    def swept(self, waiting: Mapping[str, float], now: float) -> None:
        """By the address of each open connection: since when its oldest question waits, infinity for none."""
        attempted = {_name(endpoint) for endpoint in self._trying}
        for endpoint, since in self._trying.items():
            if now - since >= PATIENCE_SECONDS and endpoint not in self._errors:
                self._note_outage(_name(endpoint), _SILENT, f"{_name(endpoint)} does not answer", now)
        for name, since in waiting.items():
            if now - since >= PATIENCE_SECONDS:
                self._note_outage(name, _SILENT, f"{name} accepts connections and does not answer", now)
            elif name not in attempted:
                self._note_end(name, now)

    def keep(self, endpoints: Iterable[Endpoint]) -> None:
        """The cluster has these brokers; nobody connects to others any more."""
        for gone in self._trying.keys() - set(endpoints):
            del self._trying[gone]
            self._outages.succeeded(_name(gone), 0.0)

    def silence(self) -> tuple[float, str]:
        """The address that has been tried in vain for the longest time: since when, and why; infinity and
        nothing when there is none."""
        if not self._trying:
            return inf, ""
        endpoint = min(self._trying, key=self._trying.__getitem__)
        return self._trying[endpoint], self._errors.get(endpoint, f"{_name(endpoint)} does not answer")

    def take_returned(self) -> float | None:
        """The beginning, at the earliest, of the outages that have ended since the last call; None when none
        has."""
        returned, self._returned = self._returned, None
        return returned

    def _note_outage(self, name: str, kind: str, reason: str, now: float) -> None:
        if self._outages.failed(name, kind, now):
            _log.warning(
                "cluster %s: %s; trying again until it answers, without further lines", self._cluster, reason
            )

    def _note_end(self, name: str, now: float) -> None:
        ended = self._outages.succeeded(name, now)
        if ended is not None:
            _log.warning("cluster %s: %s answers again after %.1f s", self._cluster, name, ended.seconds)
            began = now - ended.seconds - PATIENCE_SECONDS
            self._returned = began if self._returned is None else min(self._returned, began)


def _name(endpoint: Endpoint) -> str:
    return f"{endpoint.host}:{endpoint.port}"
