"""Fixtures that every test may use; the real servers come from tests/servers.py."""

from __future__ import annotations

import logging
import signal
from collections.abc import Iterator, Sequence

import pytest
import structlog
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from tests.promtool import known_promtool

pytest_plugins = ["tests.servers", "tests.loops_left", "tests.collecting", "tests.failures_at_once"]
_File = Sequence[pytest.Item]

_ON_ONE_PINOT = (
    "tests/e2e/test_loop.py",
    "tests/integration/headrace/test_notebook.py",
    "tests/integration/headrace/test_replay_from_pinot.py",
    "tests/integration/monitor/test_measurements.py",
    "tests/integration/pinot/",
    "tests/integration/pmp/test_broker_death.py",
    "tests/integration/pmp/test_job.py",
    "tests/integration/pmp/test_provider.py",
    "tests/integration/pmp/test_recording.py",
    "tests/integration/pmp/test_service.py",
    "tests/integration/stack/test_servers.py",
)
"""What takes the session's Pinot or Spark."""


def pytest_report_header() -> str:
    """By what rules of Prometheus are checked."""
    return f"promtool: {known_promtool()}"


# A shell makes what it starts in the background deaf to ctrl-C, and our tests' children would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes says how busy the machine is.
settings.register_profile("headrace", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("headrace")


def _show_plain_tracebacks() -> None:
    """The defaults of structlog, whose own tracebacks take half a second each."""
    structlog.reset_defaults()
    renderer = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    structlog.configure(processors=[*structlog.get_config()["processors"][:-1], renderer])


_show_plain_tracebacks()


@pytest.fixture(autouse=True)
def _logs_set_up_by_no_other_test() -> Iterator[None]:
    """Undo what a command called in this process has set for the logs of the whole process."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers, root.level = handlers, level
    _show_plain_tracebacks()
    structlog.contextvars.clear_contextvars()


class _ByServers(LoadFileScheduling):
    """A file in one process, and all that share Pinot and Spark in the same one: each of the two takes half a
    gigabyte and 20 seconds of processor time, which the other processes do without."""

    def _split_scope(self, nodeid: str) -> str:
        return _ON_ONE_PINOT[0] if nodeid.startswith(_ON_ONE_PINOT) else super()._split_scope(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling | None:
    """This one in place of `--dist loadfile`."""
    return _ByServers(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that one process runs all of first, then those with a long test, then those with servers, each in
    the random order that they have.

    The others run among them, as what waits for servers leaves the processors to what computes. A third of
    them comes at the end, so that the workers end at the same time.
    """
    files: dict[str, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path.as_posix(), []).append(item)
    first = sorted(filter(_begins_early, files.values()), key=_rank)
    others = [file for file in files.values() if not _begins_early(file)]
    among = len(others) * 2 // 3
    items[:] = [item for file in [*_spread(first, others[:among]), *others[among:]] for item in file]


def _spread(*parts: Sequence[_File]) -> list[_File]:
    """All of them, each part in its order and as densely at the beginning as at the end."""
    placed = [(number / len(part), file) for part in parts for number, file in enumerate(part)]
    return [file for _, file in sorted(placed, key=lambda one: one[0])]


def _begins_early(file: _File) -> bool:
    return _any_marked(file, "long") or _any_marked(file, "servers")


def _rank(file: _File) -> tuple[bool, bool]:
    return not file[0].nodeid.startswith(_ON_ONE_PINOT), not _any_marked(file, "long")


def _any_marked(file: _File, mark: str) -> bool:
    return any(item.get_closest_marker(mark) for item in file)
