"""Run `headrace-dev demo` without a terminal: in the background, and after a failure."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from headrace_dev.commands.demo import leave_running, play
from headrace_dev.demo.processes import FIRST_REST_PORT, DemoProcesses
from headrace_dev.demo.scenario import INSTANCES, settings_text
from stack.supervisor import Stack
from tests.patience import wait_until
from tests.running import free_offset

pytestmark = pytest.mark.deep

END = "ended with"


def test_a_demonstration_that_cannot_begin_says_why_in_the_log_and_in_the_report(tmp_path: Path) -> None:
    rest = [FIRST_REST_PORT + number for number in range(len(INSTANCES))]
    offset = free_offset(range(2_000, 12_000, 20), rest)
    log = tmp_path / "log"
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", FIRST_REST_PORT + offset))
        taken.listen()
        line = f"{sys.executable} -m headrace_dev demo --keep --port-offset {offset}"
        shell = f"(nohup {line}; echo {END} $?) > {log} 2>&1 <&- &"
        # The shell exits at once, and its background process continues.
        subprocess.run(["sh", "-c", shell], cwd=tmp_path, check=True, start_new_session=True)
        wait_until(lambda: log.exists() and END in log.read_text(), "the demonstration ends")
    told = log.read_text()
    reason = "stop that process, or move all ports with --port-offset"
    assert told.rstrip().endswith(f"{END} 1")
    assert reason in told
    assert "no process" in told
    assert "Traceback" not in told
    assert reason in (tmp_path / "report.html").read_text()


class TwoServers(DemoProcesses):
    """Demonstration with the two clusters only, of which the destination dies."""

    def start_stack(self) -> None:
        self.stack.up(("destination", "source"), fresh=True)
        self.settings_file.write_text(settings_text(self.addresses))
        self.stack.server("destination").kill()


@pytest.mark.servers
def test_after_a_failure_the_servers_that_still_run_are_kept_and_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told: list[str] = []
    processes = TwoServers(tmp_path, free_offset(range(2_000, 12_000)), told.append)
    try:
        findings = play(processes, tmp_path / "report.html", told.append)
        assert processes.addresses["destination"] in findings.stopped
        leave_running(processes)
        processes.stop()
        assert any(one.startswith("destination ended") for one in told)
        named = capsys.readouterr().out
        assert f"source: {processes.addresses['source']}" in named
        assert "destination:" not in named
        states = {one.name: one.state for one in Stack(tmp_path / "stack").status(("destination", "source"))}
        assert states == {"destination": "died", "source": "up"}
    finally:
        processes.stop()
        Stack(tmp_path / "stack").down()
    assert {one.state for one in Stack(tmp_path / "stack").status(("destination", "source"))} == {"down"}
