"""Fixtures: isolation from the user's settings, and commands that use a service in memory."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import httpx
import pytest

from headrace.__main__ import main
from headrace.process.logs import without_logs
from mirror.model.identifiers import GroupName
from mirror.model.load import TaskCapacity, TaskLimits
from mirror.model.plan import PlanningRequest
from mirror.model.topics import TopicPartition
from tests.example_package import install
from tests.fakes.in_process import InProcess
from tests.fakes.site import Site

Write = Callable[[str], Path]
Serve = Callable[[httpx.BaseTransport], None]
T0: Final = TopicPartition("t", 0)
T1: Final = TopicPartition("t", 1)
ASKED: Final = PlanningRequest(GroupName("g"), (T0, T1), {}, TaskCapacity(100), TaskLimits(), {})


class Shown(NamedTuple):
    """Output and exit code of a command."""

    code: int
    out: str
    err: str


class WithoutLogs(httpx.BaseTransport):
    """Transport that discards the service's log lines, which are not output of the command."""

    def __init__(self, inner: httpx.BaseTransport) -> None:
        self._inner = inner

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Handle one request."""
        with without_logs():
            return self._inner.handle_request(request)


Headrace = Callable[..., Shown]
_CLIENT = httpx.Client


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for variable in tuple(os.environ):
        if variable.startswith("HEADRACE_"):
            monkeypatch.delenv(variable)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Serve:
    """Return a function that routes every address to one transport."""

    def lead_to(transport: httpx.BaseTransport) -> None:
        monkeypatch.setattr(httpx, "Client", partial(_CLIENT, transport=WithoutLogs(transport)))

    return lead_to


@pytest.fixture
def site(serve: Serve) -> Site:
    """Start the service that commands talk to."""
    site = Site()
    serve(InProcess(site.app))
    return site


@pytest.fixture
def headrace(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Headrace:
    """Return a function that runs `headrace` with these arguments in this process."""
    return in_this_process(main, "headrace", monkeypatch, capsys)


def in_this_process(
    program: Callable[[], None],
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Headrace:
    """Return a function that runs a program with these arguments in this process."""
    monkeypatch.setenv("COLUMNS", "1000")

    def run(*arguments: str) -> Shown:
        monkeypatch.setattr(sys, "argv", [name, *arguments])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            program()
        return Shown(int(ended.value.code or 0), *capsys.readouterr())

    return run


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Return a function that writes a configuration file."""

    def to_file(text: str) -> Path:
        file = tmp_path / "some.toml"
        file.write_text(text, encoding="utf-8")
        return file

    return to_file


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder into which pip has installed the wheel of the example."""
    return install(tmp_path_factory.mktemp("packages"), tmp_path_factory.mktemp("wheels"))


@pytest.fixture
def installed(packages: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Add that folder to the import path."""
    monkeypatch.syspath_prepend(str(packages))
    yield
    sys.modules.pop("headrace_example", None)
