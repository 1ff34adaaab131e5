"""A demonstration that breaks off: the report says where and why."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.commands.demo import play
from headrace.demo.processes import DemoProcesses, end_released
from mirror.errors import Unreachable
from stack.process.managed_process import ManagedProcess
from tests.patience import wait_until


class Breaking(DemoProcesses):
    """Servers that do not come up."""

    def __init__(self, home: Path, failure: BaseException) -> None:
        super().__init__(home, 0, lambda _: None)
        self._failure = failure

    def start_stack(self) -> None:
        raise self._failure


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        (Unreachable("pinot did not answer for 60 s", advice="look at its log"), "look at its log"),
        (RuntimeError("<what nobody has foreseen>"), "RuntimeError: &lt;what nobody has foreseen&gt;"),
    ],
)
def test_the_report_of_a_failure_says_what_was_reached_and_why_it_stopped(
    tmp_path: Path, failure: Exception, said: str
) -> None:
    told: list[str] = []
    findings = play(Breaking(tmp_path, failure), tmp_path / "report.html", told.append)
    assert not findings.all_held
    assert told == [findings.reached]
    page = (tmp_path / "report.html").read_text()
    assert "starting ZooKeeper" in page
    assert said in page


def test_what_has_ended_keeps_nothing_else_from_being_kept(tmp_path: Path) -> None:
    told: list[str] = []
    processes = DemoProcesses(tmp_path, 0, told.append)
    for name, arguments in (("headrace-1", ["sleep", "600"]), ("sampler", ["true"])):
        processes.processes[name] = ManagedProcess(name, arguments).start(releasable=True)
    wait_until(lambda: not processes.processes["sampler"].is_alive(), "it has ended")
    assert processes.release() == ["headrace-1"]
    assert told == ["sampler ended before it was released"]
    processes.stop()
    assert end_released(tmp_path) == ["headrace-1"]


def test_an_interruption_ends_it_and_is_in_the_report(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        play(Breaking(tmp_path, KeyboardInterrupt()), tmp_path / "report.html", lambda _: None)
    assert "it was told to end" in (tmp_path / "report.html").read_text()
