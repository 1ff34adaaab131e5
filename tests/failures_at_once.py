"""Prints a failure when it happens: a run that is ended before its summary has then said what failed."""

from __future__ import annotations

import pytest


class FailuresAtOnce:
    """Where reports of all processes arrive."""

    def __init__(self, terminal: pytest.TerminalReporter) -> None:
        self._terminal = terminal

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """The test's name and its traceback."""
        if report.failed:
            self._terminal.write_sep("_", f"{report.nodeid} failed in its {report.when}", red=True)
            self._terminal.write_line(report.longreprtext)


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """In the process that people see, not in those that it gives the tests to."""
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(FailuresAtOnce(terminal), "failures-at-once")
