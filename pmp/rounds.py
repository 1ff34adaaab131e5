"""Base classes of services that run in a thread, or that do some work at an interval."""

from __future__ import annotations

from abc import abstractmethod

from mirror.background_thread import BackgroundThread
from mirror.errors import HeadraceError
from mirror.loggers import get_logger

_log = get_logger(__name__)


class ThreadService(BackgroundThread):
    """Base class of a service with one thread. `failure`: error that ended the thread."""

    def __init__(self, name: str) -> None:
        super().__init__(name, is_daemon=False)
        self.failure: Exception | None = None


class RoundService(ThreadService):
    """Base class of a service that calls `_work` at once and then at every interval.

    An error that `_ends` accepts ends the thread. After other errors of Headrace, the next call tries again.
    `last_problem`: error of the last call; empty if it succeeded.
    """

    def __init__(self, name: str, interval_seconds: float) -> None:
        super().__init__(name)
        self._name = name
        self._interval_seconds = interval_seconds
        self.last_problem = ""

    @property
    def healthy(self) -> bool:
        """True if the thread runs and the last call of `_work` succeeded."""
        return self.is_running() and not self.last_problem

    @abstractmethod
    def _work(self) -> None:
        """Do the work of one interval. Raises HeadraceError."""

    def _ends(self, error: HeadraceError) -> bool:
        """Return whether an error of `_work` must end the service."""
        return not error.retriable

    def _run(self) -> None:
        try:
            while True:
                self._attempt()
                if self._stopping.wait(self._interval_seconds):
                    return
        except Exception as error:  # noqa: BLE001 - top of a service loop
            self.failure = error
            _log.exception("thread failed", thread=self._name)

    def _attempt(self) -> None:
        try:
            self._work()
        except HeadraceError as error:
            if self._ends(error):
                raise
            if str(error) != self.last_problem:
                _log.warning("periodic run failed", thread=self._name, problem=str(error))
            self.last_problem = str(error)
        else:
            self.last_problem = ""
