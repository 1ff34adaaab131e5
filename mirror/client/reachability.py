"""Which brokers of a cluster cannot be reached, do not answer, or answer late, and since when.

Reported in one line when that begins and one when it ends, whatever number of attempts lies between. The end
of such an outage also wakes everything that waits for the cluster.
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
"""A refused connection and a missing answer are one outage; that we are not let in is news."""
PATIENCE_SECONDS: Final = 5.0
"""A question that stays open for longer than this is an outage."""
SLOWEST_LINK: Final = 256 * 1024
"""Bytes of an answer that may take a second: a link that carries less does not carry a full answer in the
time that a question has."""


class Promptness:
    """Of one connection: whether its answers come much later than the broker was asked to send them.

    A late answer counts until a prompt one comes: what was not known while the question was open is not known
    of the next one either. Moments are monotonic seconds; `asked` is when the answer was due, were it not for
    the way and the broker.
    """

    __slots__ = ("_until", "seconds", "since")

    def __init__(self) -> None:
        self.since = inf
        """When the first of the late answers in a row was due; infinite while answers are prompt."""
        self.seconds = 0.0
        """What they take, about: another number only where it is half or twice as much."""
        self._until = inf

    def answered(self, asked: float, now: float, size: int) -> None:
        """An answer of `size` bytes has come."""
        took = now - asked - size / SLOWEST_LINK
        if took < PATIENCE_SECONDS:
            self.since, self.seconds = inf, 0.0
            return
        self.since = min(self.since, asked)
        self._until = now + PATIENCE_SECONDS
        if not self.seconds / 2 < took < self.seconds * 2:
            self.seconds = took

    def silence(self, asked: float, now: float) -> tuple[float, str]:
        """What is to be said of the broker while its oldest question is open since `asked`, infinity for
        none: since when, and what. A broker that is asked nothing more is not late for long."""
        if self.since == inf or (asked == inf and now >= self._until):
            return asked, "does not answer"
        is_worse = now - asked >= 2 * self.seconds
        return self.since, "does not answer" if is_worse else f"answers after {self.seconds:.0f} s"


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

    def swept(self, waiting: Mapping[str, tuple[float, str]], now: float) -> None:
        """By the address of each open connection: since when its answers lack or come late, infinity for
        neither, and which of it."""
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
    return address_of(endpoint.host, endpoint.port)
