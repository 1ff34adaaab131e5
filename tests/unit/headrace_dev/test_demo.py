"""Test the demonstration: reports of failures, servers left running, compilation."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from typer.testing import CliRunner

from api.app import described_app
from api.pages.routes import FOLDER
from headrace.process.machine_code import build_folder
from headrace_dev.__main__ import app
from headrace_dev.commands.demo import play
from headrace_dev.compilation import builds
from headrace_dev.compilation.builds import DONE
from headrace_dev.demo.kept import end_released, status_of
from headrace_dev.demo.preparation import DemoPreparation
from headrace_dev.demo.processes import DemoProcesses
from headrace_dev.demo.scenario import INSTANCES, usual_rates
from headrace_dev.demo.story import DemoStory
from headrace_dev.demo.words import PARTS, next_steps, pages
from mirror.errors import Unreachable
from stack.ports import free_ports
from stack.process.managed_process import ManagedProcess
from tests.patience import wait_until

ROOT = Path(__file__).parents[3]


class Breaking(DemoProcesses):
    """Processes whose stack fails to start."""

    def __init__(self, home: Path, failure: BaseException) -> None:
        super().__init__(home, 0, lambda _: None)
        self._failure = failure

    def start_stack(self) -> None:
        raise self._failure


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        (Unreachable("pinot is away", advice="a log"), "a log"),
        (RuntimeError("<oh>"), "RuntimeError: &lt;oh&gt;"),
    ],
)
def test_the_report_of_a_failure_says_what_was_reached_and_why_it_stopped(
    tmp_path: Path, failure: Exception, said: str
) -> None:
    told: list[str] = []
    findings = play(Breaking(tmp_path, failure), tmp_path / "report.html", told.append)
    assert not findings.all_held
    assert told == [f"part 1 of {len(PARTS)}: {findings.reached}"]
    page = (tmp_path / "report.html").read_text()
    assert "starting two Kafka clusters" in page
    assert said in page


def test_what_has_ended_keeps_nothing_else_from_being_kept(tmp_path: Path) -> None:
    told: list[str] = []
    processes = DemoProcesses(tmp_path, 0, told.append)
    for name, arguments in (("headrace-1", ["sleep", "600"]), ("sampler", ["true"])):
        processes.processes[name] = ManagedProcess(name, arguments).start(releasable=True)
    wait_until(lambda: not processes.processes["sampler"].is_alive(), "the sampler has ended")
    assert processes.release() == ["headrace-1"]
    (line,) = told
    assert "sampler" in line
    processes.stop()
    assert end_released(tmp_path) == ["headrace-1"]


class Answering(DemoProcesses):
    """Processes whose instances are commands that do nothing."""

    def start_instance(self, name: str) -> None:
        self.processes[name] = ManagedProcess(name, ["sleep", "600"]).start(releasable=True)

    def _answers(self, name: str) -> bool:
        return self.processes[name].is_alive()


def test_what_is_left_running_has_traffic_and_every_instance(tmp_path: Path) -> None:
    processes = Answering(tmp_path, 0, lambda _: None)
    processes.addresses["source"] = f"127.0.0.1:{free_ports(1)[0]}"
    processes.start_instance(INSTANCES[0])
    processes.go_on(usual_rates())
    assert sorted(processes.release()) == sorted([*INSTANCES, "traffic"])
    processes.stop()
    assert sorted(end_released(tmp_path)) == sorted([*INSTANCES, "traffic"])


def test_every_part_of_the_story_is_announced() -> None:
    acts = [name for name in PARTS if not name.startswith("start_")]
    assert all(callable(getattr(DemoStory, name)) for name in acts)
    assert list(PARTS)[2:] == acts


def test_the_last_lines_say_where_to_look_next() -> None:
    home = Path("/demo")
    plain = "\n".join(next_steps(Path("report.html"), home, kept=False, stopped=False))
    kept = "\n".join(next_steps(Path("report.html"), home, kept=True, stopped=False))
    broken = "\n".join(next_steps(Path("report.html"), home, kept=False, stopped=True))
    assert "make demo KEEP=1" in plain
    assert "KEEP=1" not in kept
    assert "demo --stop" in kept
    assert "KEEP=1" not in broken
    assert "/demo/*.log" in broken


def test_the_pages_that_are_worth_opening_exist() -> None:
    known = set(described_app().openapi()["paths"])
    found = [urlsplit(line.split()[0]) for line in pages("127.0.0.1:1")]
    served = {"/metrics", "/v1/docs", "/ui/"}
    assert {one.path.replace("/shop", "/{name}") for one in found} <= known | served
    shown = (FOLDER / "app.js").read_text()
    for one in found:
        if one.path == "/ui/" and one.fragment:
            assert f"{one.fragment.split('/')[1].partition('?')[0]}: () => import(" in shown


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("import sys; sys.exit(sys.argv[1] == 'check')", "is compiled"),
        ("raise SystemExit(1)", "interpreted"),
    ],
)
def test_workers_wait_for_machine_code_that_is_being_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, said: str
) -> None:
    checkout = tmp_path / "checkout"
    module = checkout / "headrace_dev" / "compilation" / "__main__.py"
    module.parent.mkdir(parents=True)
    module.write_text(program)
    for package in module.parents[:2]:
        (package / "__init__.py").touch()
    (checkout / "pyproject.toml").write_text("")
    told: list[str] = []
    preparation = DemoPreparation(tmp_path, told.append, checkout)
    preparation.begin()
    preparation.finish_compiling()
    preparation.stop()
    assert told[0].startswith("compiling")
    assert said in told[-1]


def test_what_is_compiled_already_is_not_compiled_again(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("")
    build_folder(tmp_path).mkdir(parents=True)
    told: list[str] = []
    preparation = DemoPreparation(tmp_path, told.append, tmp_path)
    preparation.begin()
    preparation.finish_compiling()
    preparation.stop()
    assert builds.check(tmp_path) == DONE
    assert not told


def test_an_interruption_ends_it_and_is_in_the_report(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        play(Breaking(tmp_path, KeyboardInterrupt()), tmp_path / "report.html", lambda _: None)
    assert "interrupted" in (tmp_path / "report.html").read_text()


def test_the_stacks_status_shows_what_a_demonstration_has_left_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_HOME", str(tmp_path))
    home = tmp_path / ".headrace" / "demo"
    quiet = CliRunner().invoke(app(), ["stack", "status"])
    assert "demo in" not in quiet.output
    processes = Answering(home, 7, lambda _: None)
    processes.start_instance(INSTANCES[0])
    processes.processes["sampler"] = ManagedProcess("sampler", ["sleep", "600"]).start(releasable=True)
    assert processes.release() == [INSTANCES[0], "sampler"]
    shown = CliRunner().invoke(app(), ["stack", "status"])
    assert f"demo in {home}" in shown.output
    found = json.loads(CliRunner().invoke(app(), ["stack", "status", "--json"]).stdout)["demo"]
    assert found["home"] == str(home)
    assert [(one["name"], one["state"], one["address"]) for one in found["running"]] == [
        (INSTANCES[0], "up", processes.rest_address(INSTANCES[0])),
        ("sampler", "up", ""),
    ]
    os.killpg(found["running"][1]["pid"], signal.SIGKILL)
    wait_until(lambda: status_of(home)[1].state == "died", "the end of the sampler is noticed")
    assert CliRunner().invoke(app(), ["stack", "status"]).exit_code == 0
    assert end_released(home) == [INSTANCES[0]]
    assert status_of(home) == []


def test_make_passes_the_port_offset_on() -> None:
    for given, wanted in (((), ""), (("PORT_OFFSET=100", "KEEP=1"), "--keep --port-offset 100")):
        done = subprocess.run(
            ["make", "-n", "demo", *given], cwd=ROOT, capture_output=True, text=True, check=True
        )
        (line,) = [one for one in done.stdout.splitlines() if "headrace-dev demo" in one]
        assert " ".join(line.partition("headrace-dev demo")[2].split()) == wanted
