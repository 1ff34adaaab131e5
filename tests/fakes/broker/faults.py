"""What a test makes a broker do with requests, one by one, in the manner of franz-go's kfake (`ControlKey`).

A fault is planted for an api key and taken by the next request that fits it; `times=None` keeps it until
`clear`. The first fault that fits a request counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Predicate = Callable[["Asked"], bool]
"""Whether a fault is meant for this request."""


class Gate:
    """Keeps requests back until it is opened."""

    def __init__(self) -> None:
        self.is_open = False

    def open(self) -> None:
        """Let them go on."""
        self.is_open = True


@dataclass(frozen=True, slots=True)
class Drop:
    """Close the connection; `applied`: after the request has had its effect, so that its answer is lost."""

    applied: bool = False


@dataclass(frozen=True, slots=True)
class Delay:
    """Answer later; `applied`: what the request does is done at once."""

    seconds: float
    applied: bool = False


@dataclass(frozen=True, slots=True)
class Hold:
    """Answer when the gate is opened; `applied` as for `Delay`."""

    gate: Gate
    applied: bool = False


@dataclass(frozen=True, slots=True)
class Cut:
    """Send so many bytes of the answer's frame and close the connection."""

    keep: int


@dataclass(frozen=True, slots=True)
class Announce:
    """Begin an answer with a frame of that size and never end it; with `seconds` another byte comes each time
    so many have passed."""

    size: int
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Code:
    """Answer with the error, for one partition, one topic, or everything that is asked.

    `applied`: the request has its effect all the same.
    """

    error: int
    topic: str | None = None
    partition: int | None = None
    applied: bool = False

    def concerns(self, topic: str | None, partition: int | None) -> bool:
        """Whether it is this partition's error."""
        return self.topic in (None, topic) and self.partition in (None, partition)


@dataclass(frozen=True, slots=True)
class Throttle:
    """Answer with a throttle time (KIP-219)."""

    milliseconds: int


@dataclass(frozen=True, slots=True)
class Edit:
    """Change the answer, an object of kafka-python, before it is encoded."""

    change: Callable[[Any], None]


@dataclass(frozen=True, slots=True)
class Run:
    """Do something to the cluster before the request is treated, which then goes on as usual."""

    action: Callable[[], object]


Fault = Drop | Delay | Hold | Cut | Announce | Code | Throttle | Edit | Run


@dataclass
class Asked:
    """A request under treatment. `message`: as kafka-python decoded it; `memo`: what its handler keeps
    between two looks at a request that has to wait, until `until` at the latest."""

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
    """What the answer takes to come back."""

    def error(self, topic: str | None = None, partition: int | None = None) -> int:
        """The planted error that is answered instead of doing anything; 0 for none."""
        return next(
            (f.error for f in self.codes() if not f.applied and f.concerns(topic, partition)),
            0,
        )

    def error_after(self, topic: str | None = None, partition: int | None = None) -> int:
        """The planted error that is answered although it was done; 0 for none."""
        return next((f.error for f in self.codes() if f.applied and f.concerns(topic, partition)), 0)

    def codes(self) -> list[Code]:
        """The planted errors."""
        return [fault for fault in self.faults if isinstance(fault, Code)]


@dataclass
class _Planted:
    api: int
    fault: Fault
    times: int | None
    broker: int | None
    fits: Predicate | None

    def is_for(self, asked: Asked) -> bool:
        return (
            asked.api == self.api
            and self.broker in (None, asked.broker)
            and (self.fits is None or self.fits(asked))
        )


class Faults:
    """All that is planted in one cluster."""

    def __init__(self) -> None:
        self._planted: list[_Planted] = []
        self.taken = 0
        """How many requests met a fault."""

    def plant(
        self,
        api: int,
        fault: Fault,
        *,
        times: int | None = 1,
        broker: int | None = None,
        fits: Predicate | None = None,
    ) -> None:
        """Let the next requests of that api key meet the fault."""
        self._planted.append(_Planted(api, fault, times, broker, fits))

    def clear(self) -> None:
        """Everything is as usual from now on."""
        self._planted.clear()

    @property
    def is_spent(self) -> bool:
        """Whether every fault with a number of times has been taken."""
        return all(one.times is None for one in self._planted)

    def take(self, asked: Asked) -> None:
        """Give the request the fault that it meets."""
        for one in self._planted:
            if one.is_for(asked):
                asked.faults.append(one.fault)
                self.taken += 1
                if one.times is not None:
                    one.times -= 1
                    if not one.times:
                        self._planted.remove(one)
                return
