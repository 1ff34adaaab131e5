"""Runner of concurrent functions, one operation at a time, in an order that the test chooses.

Each function uses ZooKeeper through a session whose script is `Lockstep.gate(name)`: it blocks there until
the schedule releases it. An interleaving is thus a list of names, and can be repeated.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping

from tests.fakes.node_store import Fault, Operation, Script
from tests.patience import PATIENCE_SECONDS


class Lockstep:
    """One run. `schedule`: names in order of their operations; when it is exhausted, the rest run in turn."""

    def __init__(self, schedule: Iterable[str]) -> None:
        self._schedule = iter(schedule)
        self._changed = threading.Condition()
        self._waiting: set[str] = set()
        self._running: set[str] = set()
        self._granted: str | None = None

    def gate(self, name: str) -> Script:
        """Return the script for the session of the function `name`."""

        def wait_until_granted(_: Operation) -> Fault | None:
            with self._changed:
                self._waiting.add(name)
                self._changed.notify_all()
                assert self._changed.wait_for(lambda: self._granted == name, PATIENCE_SECONDS), (
                    "never granted"
                )
                self._granted = None
                self._waiting.discard(name)
            return None

        return wait_until_granted

    def run(self, functions: Mapping[str, Callable[[], object]]) -> dict[str, BaseException | None]:
        """Run all functions to completion; return the exception of each, or None."""
        outcomes: dict[str, BaseException | None] = {}
        self._running = set(functions)

        def call(name: str) -> None:
            try:
                functions[name]()
                outcomes[name] = None
            except Exception as error:  # noqa: BLE001 - the test asserts on it
                outcomes[name] = error
            with self._changed:
                self._running.discard(name)
                self._changed.notify_all()

        threads = [threading.Thread(target=call, args=(name,)) for name in functions]
        for thread in threads:
            thread.start()
        self._conduct()
        for thread in threads:
            thread.join()
        return outcomes

    def _conduct(self) -> None:
        with self._changed:
            while True:
                settled = self._changed.wait_for(
                    lambda: self._granted is None and self._waiting == self._running, PATIENCE_SECONDS
                )
                assert settled, f"stuck: {self._running - self._waiting}"
                if not self._running:
                    return
                wanted = next((name for name in self._schedule if name in self._running), None)
                self._granted = wanted or min(self._running)
                self._changed.notify_all()
