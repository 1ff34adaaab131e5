"""Faults injected into the handling of single requests, modelled on franz-go's kfake (`ControlKey`).

A fault is planted for an api key and used by the next matching request; `times=None` keeps it until `clear`.
The first matching fault applies.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Predicate = Callable[["HandledRequest"], bool]
"""Predicate of the requests to which a fault applies."""


class Gate:
    """Gate that holds requests until it is opened."""

    def __init__(self) -> None:
        self.is_open = False

    def __repr__(self) -> str:
        """Return the same name in every process: it is a part of the names of tests."""
        return "Gate()"

    def open(self) -> None:
        """Release the held requests."""
        self.is_open = True


@dataclass(frozen=True, slots=True)
class Drop:
    """Close the connection; `applied`: after the request has taken effect."""

    applied: bool = False


@dataclass(frozen=True, slots=True)
class Delay:
    """Delay the response; `applied`: the request takes effect at once."""

    seconds: float
    applied: bool = False


@dataclass(frozen=True, slots=True)
class Hold:
    """Hold the response until the gate is opened; `applied` as for `Delay`."""

    gate: Gate
    applied: bool = False


@dataclass(frozen=True, slots=True)
class Cut:
    """Send this many bytes of the response frame, then close the connection."""

    keep: int


@dataclass(frozen=True, slots=True)
class Announce:
    """Start a response with a frame of that size and never complete it.

    With `seconds`, another byte is sent at that interval.
    """

    size: int
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Code:
    """Respond with an error for one partition, one topic, or the whole request.

    `applied`: the request takes effect nevertheless.
    """

    error: int
    topic: str | None = None
    partition: int | None = None
    applied: bool = False

    def concerns(self, topic: str | None, partition: int | None) -> bool:
        """Return whether the error applies to this partition."""
        return self.topic in (None, topic) and self.partition in (None, partition)


@dataclass(frozen=True, slots=True)
class Throttle:
    """Respond with a throttle time (KIP-219)."""

    milliseconds: int


@dataclass(frozen=True, slots=True)
class Edit:
    """Change the response, an object of kafka-python, before it is encoded."""

    change: Callable[[Any], None]


@dataclass(frozen=True, slots=True)
class Run:
    """Run an action on the cluster before the request is handled as usual."""

    action: Callable[[], object]


Fault = Drop | Delay | Hold | Cut | Announce | Code | Throttle | Edit | Run


@dataclass
class HandledRequest:
    """Request being handled. `message`: as decoded by kafka-python.

    `memo`: state of the handler between two calls for a request that has to wait, until `until` at the
    latest.
    """

    broker: int
    api: int
    version: int
    client_id: str
    message: Any
    connection: object
    faults: list[Fault] = field(default_factory=list)
    memo: Any = None
    until: float | None = None
    return_seconds: float = 0.0
    """Delay of the response on its way back."""

    def error(self, topic: str | None = None, partition: int | None = None) -> int:
        """Return the planted error that replaces the effect of the request, or 0."""
        return next(
            (f.error for f in self.codes() if not f.applied and f.concerns(topic, partition)),
            0,
        )

    def error_after(self, topic: str | None = None, partition: int | None = None) -> int:
        """Return the planted error that is sent after the request took effect, or 0."""
        return next((f.error for f in self.codes() if f.applied and f.concerns(topic, partition)), 0)

    def codes(self) -> list[Code]:
        """Return the planted errors."""
        return [fault for fault in self.faults if isinstance(fault, Code)]


@dataclass
class _Planted:
    api: int
    fault: Fault
    times: int | None
    broker: int | None
    fits: Predicate | None

    def is_for(self, asked: HandledRequest) -> bool:
        return (
            asked.api == self.api
            and self.broker in (None, asked.broker)
            and (self.fits is None or self.fits(asked))
        )


class Faults:
    """All faults planted in one cluster."""

    def __init__(self) -> None:
        self._planted: list[_Planted] = []
        self.taken = 0
        """Number of requests that met a fault."""

    def plant(
        self,
        api: int,
        fault: Fault,
        *,
        times: int | None = 1,
        broker: int | None = None,
        fits: Predicate | None = None,
    ) -> None:
        """Apply the fault to the next matching requests with that api key."""
        self._planted.append(_Planted(api, fault, times, broker, fits))

    def clear(self) -> None:
        """Remove all faults."""
        self._planted.clear()

    @property
    def is_spent(self) -> bool:
        """Return whether every fault with a number of times has been used."""
        return all(one.times is None for one in self._planted)

    def take(self, asked: HandledRequest) -> None:
        """Add the matching fault to the request, if any."""
        for one in self._planted:
            if one.is_for(asked):
                asked.faults.append(one.fault)
                self.taken += 1
                if one.times is not None:
                    one.times -= 1
                    if not one.times:
                        self._planted.remove(one)
                return
