"""`headrace demo` in the background: no terminal, hangups ignored, nothing to read from."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

from headrace.demo.processes import FIRST_REST_PORT
from headrace.demo.scenario import INSTANCES
from tests.patience import wait_until
from tests.running import free_offset

END = "ended with"


def test_a_demonstration_that_cannot_begin_says_why_in_the_log_and_in_the_report(tmp_path: Path) -> None:
    rest = [FIRST_REST_PORT + number for number in range(len(INSTANCES))]
    offset = free_offset(range(2_000, 12_000, 20), rest)
    log = tmp_path / "log"
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", FIRST_REST_PORT + offset))
        taken.listen()
        line = f"{sys.executable} -m headrace demo --keep --port-offset {offset}"
        shell = f"(nohup {line}; echo {END} $?) > {log} 2>&1 <&- &"
        # The shell ends at once; what it has started goes on without it.
        subprocess.run(["sh", "-c", shell], cwd=tmp_path, check=True, start_new_session=True)
        wait_until(lambda: log.exists() and END in log.read_text(), "the demonstration ends")
    told = log.read_text()
    reason = "stop that process, or move all ports with --port-offset"
    assert told.rstrip().endswith(f"{END} 1")
    assert reason in told
    assert "nothing was running that could be kept" in told
    assert "Traceback" not in told
    assert reason in (tmp_path / "report.html").read_text()
