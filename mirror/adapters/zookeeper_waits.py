"""Socket wait for kazoo's thread, which waits five times per request.

kazoo's default creates and closes a selector for each wait: five system calls, after each of which the thread
waits for the interpreter lock. `poll` is one.
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
    """Wait like `select.select`, for any number of open files; the third list is always empty.

    A broken socket is ready for the requested operation, which then fails.
    """
    wanted: dict[int, int] = {}
    for event, sockets in ((select.POLLIN, readers), (select.POLLOUT, writers)):
        for one in sockets:
            wanted[one.fileno()] = wanted.get(one.fileno(), 0) | event
    poll = select.poll()
    for number, events in wanted.items():
        poll.register(number, events)
    found = dict(poll.poll(None if timeout is None else math.ceil(timeout * 1000)))
    return (
        [reader for reader in readers if found.get(reader.fileno(), 0) & ~select.POLLOUT],
        [writer for writer in writers if found.get(writer.fileno(), 0) & ~select.POLLIN],
        [],
    )
