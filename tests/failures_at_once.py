"""Immediate output of failures, so that a run aborted before its summary still shows them."""

from __future__ import annotations

import pytest


class FailuresAtOnce:
    """Plug-in that receives the reports of all processes."""

    def __init__(self, terminal: pytest.TerminalReporter) -> None:
        self._terminal = terminal

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Print the name of a failed test and its traceback."""
        if report.failed:
            self._terminal.write_sep("_", f"{report.nodeid} failed in its {report.when}", red=True)
            self._terminal.write_line(report.longreprtext)


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Register the plug-in in the main process, not in the xdist workers."""
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(FailuresAtOnce(terminal), "failures-at-once")
