"""Tracks which brokers of a cluster are unreachable, unresponsive or slow, and since when.

Logs one line at the start and one at the end of an outage. The end of an outage also wakes the coroutines
that wait for the cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import inf
from types import MappingProxyType
from typing import Final, NamedTuple

from mirror.client.promptness import PATIENCE_SECONDS
from mirror.errors import HeadraceError
from mirror.loggers import get_logger
from mirror.model.clusters import address_of
from mirror.protocol.control.cluster import Endpoint
from mirror.repeats import RepeatedErrors

_log = get_logger(__name__)
_FIRST_BACKOFF: Final = 0.05
_LONGEST_BACKOFF: Final = 0.5
_MOST_DOUBLINGS: Final = 10
_SILENT: Final = "silent"
"""Kind of an outage with refused connections or missing responses. Failed logins are another kind."""
_UNPROVEN_SECONDS: Final = 2 * PATIENCE_SECONDS
"""Seconds for which a broker still counts as silent after its silent connection was closed.

A new connection needs `PATIENCE_SECONDS` to show that the broker is still silent.
"""


class _Silence(NamedTuple):
    """A period in which an address did not respond. `latest`: last observation. `is_over`: the address has
    responded again."""

    began: float
    latest: float
    is_over: bool = False


@dataclass(slots=True)
class _Attempts:
    """State of the connection attempts to an address.

    `since`: time since which every attempt has failed, None after a success. `under_way`: number of attempts
    in progress. `latest`: start or end of the latest attempt. `error`: error of the last failed attempt.
    """

    since: float | None = None
    under_way: int = 0
    latest: float = -inf
    failures: int = 0
    error: str = ""


class Reachability:
    """Reachability of the brokers of one cluster. Times are monotonic seconds."""

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self._attempts: dict[Endpoint, _Attempts] = {}
        self._silences: dict[str, _Silence] = {}
        self._outages = RepeatedErrors[str]()
        self._returned: float | None = None

    def tries(self, endpoint: Endpoint, now: float) -> float:
        """Register the start of a connection attempt, and return the backoff before it in seconds."""
        attempts = self._attempts_of(endpoint)
        if attempts.since is None:
            attempts.since = self._continued(_name(endpoint), now)
        attempts.under_way += 1
        attempts.latest = now
        failures = attempts.failures
        return min(_FIRST_BACKOFF * 2 ** (failures - 1), _LONGEST_BACKOFF) if failures else 0.0

    def ended(self, endpoint: Endpoint, now: float) -> None:
        """Register the end of a connection attempt, whether it succeeded or failed."""
        attempts = self._attempts_of(endpoint)
        attempts.under_way = max(attempts.under_way - 1, 0)
        attempts.latest = now

    def failed(self, endpoint: Endpoint, error: HeadraceError, now: float) -> None:
        """Store the error of a failed connection attempt."""
        attempts = self._attempts_of(endpoint)
        attempts.failures = min(attempts.failures + 1, _MOST_DOUBLINGS)
        attempts.error = error.message
        kind = _SILENT if error.retriable else type(error).__name__
        self._note_silence(_name(endpoint), now if attempts.since is None else attempts.since, now)
        self._note_outage(_name(endpoint), kind, error.message, now)

    def opened(self, endpoint: Endpoint, now: float) -> None:
        """Clear the failures of an address after its broker has responded on a new connection."""
        attempts = self._attempts_of(endpoint)
        attempts.since, attempts.failures, attempts.error = None, 0, ""
        self._note_end(_name(endpoint), now)

    def swept(
        self,
        waiting: Mapping[str, tuple[float, str]],
        now: float,
        heard: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        """Update the outages of brokers from the state of open connections.

        `waiting`: for each address, the time since which responses are late (infinity if none is late), and a
        description. `heard`: for each address, the time of the last received bytes, or `now` if unknown. A
        connection without outstanding requests does not prove the end of an outage.
        """
        self._forget_untried(now)
        attempted = set[str]()
        for endpoint, since, error in self._unsuccessful():
            attempted.add(_name(endpoint))
            if now - since >= PATIENCE_SECONDS and not error:
                self._note_outage(_name(endpoint), _SILENT, f"{_name(endpoint)} does not respond", now)
        for name, (since, how) in waiting.items():
            if now - since >= PATIENCE_SECONDS:
                self._note_silence(name, since, now)
                self._note_outage(name, _SILENT, f"{name} accepts connections and {how}", now)
            elif name not in attempted and heard.get(name, now) > self._silent_until(name):
                self._note_end(name, now)

    def _forget_untried(self, now: float) -> None:
        """Drop the failures of addresses to which no connection is attempted any longer."""
        for endpoint, attempts in list(self._attempts.items()):
            is_trying = attempts.under_way > 0 or now - attempts.latest < PATIENCE_SECONDS
            if attempts.since is not None and not is_trying:
                del self._attempts[endpoint]

    def _attempts_of(self, endpoint: Endpoint) -> _Attempts:
        return self._attempts.setdefault(endpoint, _Attempts())

    def _unsuccessful(self) -> Iterator[tuple[Endpoint, float, str]]:
        """Yield each unreachable address with the start of its failures and the last error."""
        for endpoint, attempts in self._attempts.items():
            if attempts.since is not None:
                yield endpoint, attempts.since, attempts.error

    def keep(self, endpoints: Iterable[Endpoint]) -> None:
        """Drop the state of all addresses except the given ones."""
        kept = set(endpoints)
        for endpoint in {address for address, _, _ in self._unsuccessful()} - kept:
            del self._attempts[endpoint]
            self._outages.succeeded(_name(endpoint), 0.0)
        names = {_name(endpoint) for endpoint in kept}
        self._silences = {name: silence for name, silence in self._silences.items() if name in names}

    def silence(
        self, waiting: Mapping[str, tuple[float, str]] = MappingProxyType({}), now: float = inf
    ) -> tuple[float, str]:
        """Return the start and the reason of the longest silence of a broker, or infinity and an empty
        string. `waiting`: as for `swept`."""
        since, reason = inf, ""
        for name, (due, how) in waiting.items():
            began = self._began(name, due) if now - due >= PATIENCE_SECONDS else due
            if began < since:
                since, reason = began, f"{name} {how}"
        for endpoint, began, error in self._unsuccessful():
            if began < since:
                since, reason = began, error or f"{_name(endpoint)} does not respond"
        for name, silence in self._silences.items():
            if not silence.is_over and silence.began < since and now - silence.latest < _UNPROVEN_SECONDS:
                since, reason = silence.began, f"{name} does not respond"
        return since, reason

    def _silent_until(self, name: str) -> float:
        silence = self._silences.get(name)
        return -inf if silence is None or silence.is_over else silence.latest

    def _continued(self, name: str, now: float) -> float:
        """Return when the address stopped responding, or `now` if it responds."""
        former = self._silences.get(name)
        return now if former is None or former.is_over else self._began(name, now)

    def _began(self, name: str, due: float) -> float:
        """Return the start of the silence of an address that includes the time `due`. A silent broker may
        accept new connections in between, so a recent silence of the address also counts."""
        former = self._silences.get(name)
        if former is None or due > former.latest + PATIENCE_SECONDS:
            return due
        return min(due, former.began)

    def take_returned(self) -> float | None:
        """Return the earliest start of the outages that have ended since the previous call, or None."""
        returned, self._returned = self._returned, None
        return returned

    def _note_silence(self, name: str, began: float, now: float) -> None:
        self._silences[name] = _Silence(self._began(name, began), now)

    def _note_outage(self, name: str, kind: str, reason: str, now: float) -> None:
        if self._outages.failed(name, kind, now):
            _log.warning("broker unavailable", cluster=self._cluster, address=name, reason=reason)

    def _note_end(self, name: str, now: float) -> None:
        if (silence := self._silences.get(name)) is not None:
            self._silences[name] = silence._replace(is_over=True)
        ended = self._outages.succeeded(name, now)
        if ended is not None:
            seconds = round(ended.seconds, 1)
            _log.warning("broker available again", cluster=self._cluster, address=name, seconds=seconds)
            began = now - ended.seconds - PATIENCE_SECONDS
            self._returned = began if self._returned is None else min(self._returned, began)


def _name(endpoint: Endpoint) -> str:
    return address_of(endpoint.host, endpoint.port)
