"""Stores incidents in a topic. Implements `monitor.evaluation.EvaluationListener`; never blocks.

A thread reads the records of a previous monitor, and then writes changed records. While the cluster of the
topic is unavailable, the monitor continues, and the latest state of each record is kept for the next write.
Nothing is written before the previous records have been read.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Final, Protocol

from mirror.errors import Fenced
from mirror.loggers import get_logger
from mirror.model.identifiers import DatastreamName
from mirror.model.reasons import reason_of
from mirror.ports import Clock
from monitor.evaluation import Evaluation
from monitor.movement.summary import FleetMovement
from monitor.records.deliveries import DeliveryCounts
from monitor.records.record import IncidentRecord, StoredMonitorState
from monitor.records.tracker import IncidentTracker, Matters

_log = get_logger(__name__)

_FIRST_PAUSE_SECONDS: Final = 1.0
_LONGEST_PAUSE_SECONDS: Final = 5.0
_MOST_WAITING: Final = 10_000


class RecordStore(Protocol):
    """Durable store of incident records and notes. Calls may block. Used by one thread at a time."""

    def load(self) -> StoredMonitorState:
        """Return the latest state of each stored incident and note. Raises Unreachable, Refused."""
        ...

    def write(self, records: Sequence[IncidentRecord], notes: Mapping[str, bytes | None]) -> None:
        """Write incident records and notes. A note of None is deleted.

        Raises Unreachable, Refused; Fenced if another monitor has loaded the records in the meantime.
        """
        ...

    def reclaim(self) -> None:
        """Fence other writers at the next write, after a write has raised Fenced."""
        ...


class IncidentKeeper:
    """Stores the incidents of an `IncidentTracker`, and restores the incidents of a previous monitor.

    `restored`: callback with the incidents and notes of a previous monitor, in the thread of the evaluations.
    `notes`: returns other state for the next monitor. `matters`: returns problems other than missed
    objectives. Both functions are called after each evaluation. `counts`: counts the records that arrived
    during an incident; None disables the counts.
    """

    def __init__(
        self,
        store: RecordStore,
        clock: Clock,
        restored: Callable[[StoredMonitorState], None],
        notes: Callable[[], Mapping[str, bytes]],
        matters: Callable[[], Matters],
        counts: DeliveryCounts | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._restored = restored
        self._notes = notes
        self._matters = matters
        self._counts = counts
        self._tracker = IncidentTracker()
        self._changed = threading.Condition()
        self._found: StoredMonitorState | None = None
        self._has_loaded = False
        self._is_restored = False
        self._waiting: dict[str, IncidentRecord] = {}
        self._noted: Mapping[str, bytes] = {}
        self._stored_notes: dict[str, bytes] = {}
        self._is_stopping = False
        self._is_ousted = self._is_shut_out = False
        self._trouble = ""
        self._thread = threading.Thread(target=self._run, name="incidents", daemon=True)

    def start(self) -> None:
        """Start the thread that reads and writes records."""
        self._thread.start()

    def stop(self, deadline_seconds: float) -> None:
        """Try to write the pending records once, and stop."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify()
            has_work = self._is_due()
        if has_work and self._thread.ident is not None:
            self._thread.join(deadline_seconds)

    def oust(self) -> None:
        """Stop writing incidents, because another monitor has taken over."""
        with self._changed:
            self._is_ousted = True

    def reclaim(self) -> None:
        """Resume writing if this monitor has kept its lease although a write raised Fenced.

        The broker has then only aborted a transaction that an outage had interrupted.
        """
        with self._changed:
            self._store.reclaim()
            self._is_ousted = self._is_shut_out = False
            self._changed.notify()

    @property
    def is_shut_out(self) -> bool:
        """True if another monitor writes to the store, so that the incidents here may be outdated."""
        return self._is_shut_out

    def judged(self, findings: Mapping[DatastreamName, Evaluation], movements: FleetMovement) -> None:
        """Update the incidents from the findings of an evaluation."""
        now_ms, matters = self._clock.now_ms(), self._matters()
        changed = {record.id: record for record in self._tracker.judged(findings, now_ms, matters, movements)}
        with self._changed:
            found, self._found = self._found, None
        replaced: frozenset[str] = frozenset()
        if found is not None:
            restored = self._tracker.restore(found.records)
            replaced = restored.replaced
            changed |= {record.id: record for record in restored.records}
            over = [record for record in found.records if not record.is_open]
            self._restored(StoredMonitorState([*restored.records, *over], found.notes))
        self._count([*(found.records if found is not None else ()), *changed.values()], findings)
        with self._changed:
            self._is_restored = self._is_restored or found is not None
        self._wait(changed, replaced)

    def judging_failed(self, reason: str, movements: FleetMovement) -> None:
        """Update the incidents after an evaluation without any verdict.

        The state of objectives does not change. Other problems are updated.
        """
        changed = self._tracker.judging_failed(self._clock.now_ms(), self._matters(), movements)
        self._wait({record.id: record for record in changed})

    def _count(
        self, records: Iterable[IncidentRecord], findings: Mapping[DatastreamName, Evaluation]
    ) -> None:
        if self._counts is not None:
            for record in records:
                finding = findings.get(DatastreamName(record.datastream))
                self._counts.add(record, None if finding is None else finding.subject)

    def _wait(self, changed: Mapping[str, IncidentRecord], replaced: frozenset[str] = frozenset()) -> None:
        """Queue changed incident records to be written.

        If the queue is full, its oldest records are dropped. A dropped record is queued again when it
        changes.
        """
        notes = dict(self._notes())
        with self._changed:
            self._waiting |= changed
            for key in [*replaced, *list(self._waiting)[: max(0, len(self._waiting) - _MOST_WAITING)]]:
                self._waiting.pop(key, None)
            self._noted = notes
            self._changed.notify()

    def _new_notes(self) -> dict[str, bytes | None]:
        """Return the notes that must be written because they differ from the stored ones, at most
        `_MOST_WAITING`."""
        new: dict[str, bytes | None] = {
            key: note for key, note in self._noted.items() if self._stored_notes.get(key) != note
        }
        new |= dict.fromkeys(self._stored_notes.keys() - self._noted.keys())
        return dict(islice(new.items(), _MOST_WAITING))

    def _run(self) -> None:
        pause = 0.0
        while self._pause(pause):
            try:
                self._work()
            except Fenced as error:
                _log.warning("another monitor has taken over the incidents topic", reason=error.message)
                self.oust()
                self._is_shut_out = True
            except Exception as error:  # noqa: BLE001 - the bulkhead between the monitor and the topic
                pause = min(_LONGEST_PAUSE_SECONDS, 2 * pause or _FIRST_PAUSE_SECONDS)
                self._log_problem(reason_of(error))
            else:
                pause = 0.0
                self._log_problem("")

    def _pause(self, seconds: float) -> bool:
        """Wait for work, or for `seconds` after a failure. Return False when the thread must end."""
        with self._changed:
            if seconds:
                self._changed.wait_for(lambda: self._is_stopping, seconds)
            else:
                self._changed.wait_for(
                    lambda: self._is_stopping or not self._has_loaded or self._is_due() or self._can_count()
                )
            return not self._is_stopping or (not seconds and self._is_due())

    def _is_due(self) -> bool:
        return self._is_restored and not self._is_ousted and bool(self._waiting or self._new_notes())

    def _can_count(self) -> bool:
        is_keeper = self._is_restored and not self._is_ousted
        return is_keeper and self._counts is not None and self._counts.is_due

    def _work(self) -> None:
        """Do one of these: load the stored incidents, write pending records, or count the records of an
        incident."""
        if not self._has_loaded:
            found = self._store.load()
            with self._changed:
                self._found, self._has_loaded = found, True
                self._stored_notes = dict(found.notes)
            return
        if not self._is_due():
            self._count_one()
            return
        with self._changed:
            records, notes = dict(self._waiting), self._new_notes()
        self._store.write(list(records.values()), notes)
        with self._changed:
            self._stored_notes |= {key: note for key, note in notes.items() if note is not None}
            for key in [key for key, note in notes.items() if note is None]:
                self._stored_notes.pop(key, None)
            for key, record in records.items():
                if self._waiting.get(key) is record:
                    del self._waiting[key]

    def _count_one(self) -> None:
        record = None if self._counts is None else self._counts.counted()
        if record is not None and record.deliveries is not None:
            with self._changed:
                self._waiting.setdefault(record.id, record)

    def _log_problem(self, reason: str) -> None:
        """Log when writes to the store begin to fail, when the reason changes, and when they succeed
        again."""
        if reason and reason != self._trouble:
            _log.error("cannot store incidents", reason=reason)
        elif self._trouble and not reason:
            _log.info("incidents are stored again")
        self._trouble = reason
