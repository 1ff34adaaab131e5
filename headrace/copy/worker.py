"""The worker process of `headrace copy`: lanes in, progress and reports out, over its standard streams.

In: one line of JSON (clusters with their secrets, options, identity), then a `StartLanes` message. When
the stream ends, its parent wants it to stop, or is gone. Out: lines of JSON, `progress` twice a second, in
the end one `lane` for each lane, and `done`. It imports no more than it needs: it runs once a core.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import resource
import select
import sys
from collections.abc import Sequence
from typing import Any, Final

from headrace.process.stop_signals import ignore_stop_signals
from mirror.adapters.system_clock import SystemClock
from mirror.client.access import access_from
from mirror.errors import Fenced, HeadraceError
from mirror.ports import LaneEvent, LanePaused, LaneResumed
from mirror.replication.context import EngineIdentity
from mirror.replication.engine import BatchEngine
from mirror.replication.options import CopyingOptions
from mirror.worker.protocol import MessageReader, StartLanes
from mirror.worker.watchdog import Watchdog

_PROGRESS_SECONDS: Final = 0.5
_LANES_A_SECOND: Final = 5_000
"""Adding up takes about a microsecond a lane: with very many it is done less often."""
_STEP_SECONDS: Final = 0.05
_STOP_SECONDS: Final = 20.0


class CopyWorker:
    """Runs one engine until its lanes have come to their ends, or it is told to stop."""

    def __init__(self, document: dict[str, Any], start: StartLanes) -> None:
        clusters = document["clusters"]
        self._clock = SystemClock()
        self._engine = BatchEngine(
            lambda reference: access_from(clusters[reference]),
            CopyingOptions(**document["options"]),
            EngineIdentity(**document["identity"], keeps_reports=True),
            self._clock,
        )
        self._watchdog = Watchdog()
        self._engine.start_lanes(start.specs)
        self._left = len(start.specs)
        self._done: dict[str, int] = {"records": 0, "bytes": 0}
        self._next_progress = 0.0

    def run(self) -> None:
        """Until all lanes have stopped, or the input ends. Raises Fenced when they are somebody else's."""
        while self._left:
            self._watchdog.turn()
            self._tell(self._engine.step(_STEP_SECONDS))
            self._report_final()
            if self._clock.monotonic() >= self._next_progress:
                pause = max(_PROGRESS_SECONDS, self._left / _LANES_A_SECOND)
                self._next_progress = self._clock.monotonic() + pause
                self._report_progress()
            if select.select([0], [], [], 0)[0] and not os.read(0, 4096):
                break
        self._watchdog.rest()
        self._tell(self._engine.close(_STOP_SECONDS))
        self._report_final()
        for report in self._engine.reports():
            say("lane", report=report.to_json())
        usage = resource.getrusage(resource.RUSAGE_SELF)
        say("done", cpu_seconds=usage.ru_utime + usage.ru_stime, peak_rss_bytes=usage.ru_maxrss * 1024)

    def _tell(self, events: Sequence[LaneEvent]) -> None:
        for event in events:
            if isinstance(event, LanePaused):
                say("paused", partition=str(event.key.partition), reason=event.reason)
            elif isinstance(event, LaneResumed):
                say("resumed", partition=str(event.key.partition))

    def _report_final(self) -> None:
        for report in self._engine.take_final_reports():
            self._left -= 1
            self._done["records"] += report.records
            self._done["bytes"] += report.bytes
            say("lane", report=report.to_json())

    def _report_progress(self) -> None:
        sums = self._engine.sums()
        say(
            "progress",
            records=self._done["records"] + sums.records,
            bytes=self._done["bytes"] + sums.bytes,
            lag=sums.lag,
        )
        if 0 < self._left == sums.fenced:
            raise Fenced(
                "another copy with the same --state has taken over every partition of this worker",
                advice="let only one of them run",
            )


def say(kind: str, **fields: Any) -> None:
    """One line for the parent."""
    sys.stdout.write(json.dumps({"kind": kind, **fields}) + "\n")
    sys.stdout.flush()


def main() -> int:
    """The process. A foreseen failure is told to the parent."""
    ignore_stop_signals()
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(levelname)s %(message)s")
    document = json.loads(_read_line())
    logging.getLogger().setLevel(document["log_level"])
    reader = MessageReader()
    start: StartLanes | None = None
    while start is None:
        data = os.read(0, 1 << 20)
        if not data:
            return 1
        for message in reader.feed(data):
            assert isinstance(message, StartLanes), "the first message gives the lanes"
            start = message
    gc.freeze()
    try:
        CopyWorker(document, start).run()
    except HeadraceError as error:
        say("failed", error=str(error))
        return 1
    except BrokenPipeError:
        return 1
    return 0


def _read_line() -> bytes:
    line = bytearray()
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            break
        line += byte
    return bytes(line)


if __name__ == "__main__":
    sys.exit(main())
