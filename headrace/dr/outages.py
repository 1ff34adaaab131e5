"""Reports the clusters of a pair that do not respond while an operation waits for them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Final

from mirror.jobs.dr.operation import Kind, Switchover
from mirror.model.bounds import REACH_SECONDS
from mirror.model.identifiers import ClusterRef
from mirror.replication.context import EngineContext
from mirror.wording import duration_text

_CHECK_SECONDS: Final = 1.0


class OutageReports:
    """Reports the start and the end of each outage of these clusters, from requests that commands send.

    `advice`: returns the rest of a report for a cluster name: what happens next, and what the operator can
    do. `note`: callback for the reports.
    """

    def __init__(
        self,
        bench: EngineContext,
        clusters: Collection[str],
        advice: Callable[[str], str],
        note: Callable[[str], None],
    ) -> None:
        self._bench = bench
        self._clusters = clusters
        self._advice = advice
        self._note = note
        self._reported: set[str] = set()
        self._is_watching = False

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Report outages that last for `REACH_SECONDS` during the `with` block."""
        self._is_watching = True
        self._bench.loop.call_later(_CHECK_SECONDS, self._check)
        try:
            yield
        finally:
            self._is_watching = False

    def _check(self) -> None:
        if not self._is_watching:
            return
        silent = self._bench.silent_clusters(self._bench.loop.now() - REACH_SECONDS)
        for name in self._clusters:
            reference = ClusterRef(name)
            if reference in silent and name not in self._reported:
                self._reported.add(name)
                self._note(
                    f"{name} does not respond ({self._bench.silence(reference)}): {self._advice(name)}"
                )
            elif reference not in silent and name in self._reported:
                self._reported.remove(name)
                self._note(f"{name} responds again")
        self._bench.loop.call_later(_CHECK_SECONDS, self._check)


def waiting_advice(pair: str, operation: Switchover, silent: str, seconds: float) -> str:
    """Describe how an operation waits for a silent cluster, and the remedies of the operator.

    `seconds`: remaining time until the deadline.
    """
    waits = f"the {operation.kind} waits up to {duration_text(seconds)} for it. Restore {silent}"
    if operation.is_final:
        return (
            f"{waits}; after the deadline, run the same command again, because an undo is no longer possible"
        )
    undo = f"{waits}, or interrupt this command and undo the {operation.kind} with headrace dr abort {pair}"
    if silent == operation.origin and operation.kind is Kind.SWITCHOVER:
        return f"{undo}; if {silent} is lost, then run headrace dr failover {pair} --to {operation.target}"
    return undo


def undo_advice(silent: str, seconds: float) -> str:
    """Describe how an undo waits for a silent cluster, and the remedy of the operator.

    `seconds`: remaining time until the deadline.
    """
    return (
        f"the undo waits up to {duration_text(seconds)} for it. Restore {silent}, and run the command again"
    )
