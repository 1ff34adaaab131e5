"""Servers that are killed or frozen for some time under a service, and when everything flows again."""

from __future__ import annotations

import time
from dataclasses import dataclass
from enum import StrEnum

from bench.coordination.rig.flow import Flow
from stack.server import Server
from stack.wait import wait_until

_PATIENCE_SECONDS = 120


class Kind(StrEnum):
    """How a server is away."""

    KILLED = "killed"
    FROZEN = "frozen"


@dataclass(frozen=True)
class Recovery:
    """Seconds after the server was back. `first` and `last`: until the first and the last partition flowed.
    `flowed`: for how long into the outage every partition still flowed."""

    first: float
    last: float
    flowed: float


def outage(flow: Flow, server: Server, kind: Kind, seconds: float) -> Recovery:
    """One outage. A killed server is back when it serves, a frozen one when it continues."""
    began = time.monotonic()
    if kind is Kind.KILLED:
        server.kill()
    else:
        server.suspend()
    wait_until(lambda: time.monotonic() - began >= seconds, 2 * seconds, "the outage is over")
    silence = flow.longest_silence(range(flow.partitions), began, time.monotonic())
    if kind is Kind.KILLED:
        server.start()
    else:
        server.resume()
    back = time.monotonic()
    wait_until(lambda: flow.flows_since(back), _PATIENCE_SECONDS, "every partition flows again")
    arrivals = [moment - back for moment in flow.first_since(back)]
    return Recovery(min(arrivals), max(arrivals), max(0.0, seconds - silence))
