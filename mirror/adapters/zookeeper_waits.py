"""How kazoo's thread waits for its sockets, five times for each request.

kazoo's own way makes an object of the system for each wait and closes it again: five calls of the system,
after each of which the thread waits for the interpreter. `poll` is one.
"""

from __future__ import annotations

import math
import select
from collections.abc import Sequence
from socket import socket

Ready = tuple[list[socket], list[socket], list[socket]]


def ready(
    readers: Sequence[socket], writers: Sequence[socket], _: Sequence[socket], timeout: float | None = None
) -> Ready:
    """As `select.select`, for any number of open files; nothing is ready as the third of its kinds. One that
    is broken is ready for what is wanted of it, which then fails."""
    wanted: dict[int, int] = {}
    for event, sockets in ((select.POLLIN, readers), (select.POLLOUT, writers)):
        for one in sockets:
            wanted[one.fileno()] = wanted.get(one.fileno(), 0) | event
    poll = select.poll()
    for number, events in wanted.items():
        poll.register(number, events)
    found = dict(poll.poll(None if timeout is None else math.ceil(timeout * 1000)))
    return (
        [one for one in readers if found.get(one.fileno(), 0) & ~select.POLLOUT],
        [one for one in writers if found.get(one.fileno(), 0) & ~select.POLLIN],
        [],
    )
