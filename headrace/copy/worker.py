"""Main program of a worker of `headrace copy`.

The module imports as little as possible, because one worker process runs per core.
"""

from __future__ import annotations

import gc
import socket
import sys
from typing import Final

from headrace.copy.worker_reports import CopyReports
from headrace.process.logs import log_first_to_stderr, log_to_stderr
from headrace.process.machine_code import data_plane
from headrace.process.stop_signals import ignore_stop_signals
from mirror.adapters.system_clock import SystemClock
from mirror.client.access import access_from
from mirror.loggers import set_threshold
from mirror.replication.context import EngineContext, EngineIdentity
from mirror.replication.engine import BatchEngine
from mirror.replication.options import CopyingOptions
from mirror.worker.process import Worker, receive_setup

_STEP_SECONDS: Final = 0.05
"""Seconds between polls of the control channel."""


def main() -> int:
    """Run a worker of a copy. The command-line argument is the file descriptor of the control socket."""
    ignore_stop_signals()
    log_first_to_stderr()
    control = socket.socket(fileno=int(sys.argv[1]))
    setup = receive_setup(control)
    if setup is None:
        return 1
    document = setup.document
    set_threshold(document["log_level"], log_to_stderr)
    clock = SystemClock()
    context = EngineContext(
        lambda reference: access_from(document["clusters"][reference]),
        CopyingOptions(**document["options"]),
        EngineIdentity(**document["identity"]),
        clock,
    )
    engine = BatchEngine(context)
    gc.freeze()
    Worker(control, engine, CopyReports(engine, clock), clock, data_plane(), _STEP_SECONDS).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
