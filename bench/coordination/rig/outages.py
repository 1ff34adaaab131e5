"""Outages of the servers of a running service, and the time until every partition flows again."""

from __future__ import annotations

import time
from dataclasses import dataclass
from enum import StrEnum

from bench.coordination.rig.flow import Flow
from stack.process.wait import wait_until
from stack.server import Server

_PATIENCE_SECONDS = 120


class Kind(StrEnum):
    """Kind of server outage."""

    KILLED = "killed"
    FROZEN = "frozen"


@dataclass(frozen=True)
class Recovery:
    """Seconds from the return of a server until the first and the last partition are copied.

    `flowed`: seconds into the outage during which every partition still flowed.
    """

    first: float
    last: float
    flowed: float


def outage(flow: Flow, server: Server, kind: Kind, seconds: float) -> Recovery:
    """Run one server outage. It ends when a killed server is ready, or when a frozen one resumes."""
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
