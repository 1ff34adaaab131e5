"""Isolates failures, so that an error in one datastream, request, lane or message does not affect others."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from types import TracebackType
from typing import TypeVar

_T = TypeVar("_T")


class Bulkhead:
    """Context manager that suppresses exceptions of its block, so that the caller continues.

    The exception is stored as `failure` and passed to `on_failure`.

    Exceptions that end the process (KeyboardInterrupt, SystemExit), and those of the classes in `through`,
    are raised.
    """

    __slots__ = ("_on_failure", "_through", "failure")

    def __init__(
        self,
        on_failure: Callable[[Exception], object] | None = None,
        through: tuple[type[Exception], ...] = (),
    ) -> None:
        self._on_failure = on_failure
        self._through = through
        self.failure: Exception | None = None

    def __enter__(self) -> Bulkhead:
        """Enter the block whose exceptions are suppressed."""
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _traceback: TracebackType | None
    ) -> bool:
        """Return whether to suppress the exception of the block."""
        if not isinstance(error, Exception) or isinstance(error, self._through):
            return False
        self.failure = error
        if self._on_failure is not None:
            self._on_failure(error)
        return True


def settle(answer: Future[_T], call: Callable[[], _T]) -> None:
    """Run the call, and complete the future with its result or its exception."""
    try:
        result = call()
    except BaseException as error:  # noqa: BLE001 - raised in the waiting thread
        answer.set_exception(error)
    else:
        answer.set_result(result)
