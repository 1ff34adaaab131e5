"""Keeps the book of incidents in a topic. Satisfies `monitor.cycle.Listener`; returns at once.

A thread reads what a former monitor has left, then writes. While the topic's cluster is away the monitor
judges on, and the newest state of each record waits; nothing is written before the former ones are known.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Final, Protocol

import structlog

from mirror.errors import Fenced, reason_of
from mirror.model.identifiers import DatastreamName
from mirror.ports import Clock
from monitor.cycle import Finding
from monitor.movement.summary import Movements
from monitor.records.book import IncidentBook, Matters
from monitor.records.deliveries import DeliveryCounts
from monitor.records.record import IncidentRecord, Stored

_log = structlog.get_logger(__name__)

_FIRST_PAUSE_SECONDS: Final = 1.0
_LONGEST_PAUSE_SECONDS: Final = 30.0
_MOST_WAITING: Final = 10_000


class RecordStore(Protocol):
    """Where records outlive the monitor. Calls may block, one thread at a time."""

    def load(self) -> Stored:
        """The newest state of each. Raises Unreachable, Refused."""
        ...

    def write(self, records: Sequence[IncidentRecord], notes: Mapping[str, bytes | None]) -> None:
        """A note of None is one no more. Raises Fenced where another monitor has loaded them since;
        Unreachable, Refused."""
        ...


class IncidentKeeper:
    """`restored`: gets the incidents that go on and the notes of a former monitor, in the thread of the
    monitor's turns. After each turn it is asked for `notes`, all that is to be known to the next monitor
    besides, and `matters`, what is the matter besides objectives. `counts`: of records that arrived during an
    incident; None: they are not counted."""

    def __init__(
        self,
        store: RecordStore,
        clock: Clock,
        restored: Callable[[Stored], None],
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
        self._book = IncidentBook()
        self._changed = threading.Condition()
        self._found: Stored | None = None
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
        """Begin to read, then to write."""
        self._thread.start()

    def stop(self, deadline_seconds: float) -> None:
        """Try once to write what waits."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify()
            has_work = self._is_due()
        if has_work and self._thread.ident is not None:
            self._thread.join(deadline_seconds)

    def oust(self) -> None:
        """Write nothing any more: another monitor does."""
        with self._changed:
            self._is_ousted = True

    @property
    def is_shut_out(self) -> bool:
        """Whether the store is another monitor's by now: what is known here is not what is stored."""
        return self._is_shut_out

    def judged(self, findings: Mapping[DatastreamName, Finding], movements: Movements) -> None:
        """Note what a turn found."""
        now_ms, matters = self._clock.now_ms(), self._matters()
        changed = {one.id: one for one in self._book.judged(findings, now_ms, matters, movements)}
        with self._changed:
            found, self._found = self._found, None
        replaced: frozenset[str] = frozenset()
        if found is not None:
            restored = self._book.restore(found.records)
            replaced = restored.replaced
            changed |= {one.id: one for one in restored.records}
            self._restored(Stored(restored.records, found.notes))
        self._count([*(found.records if found is not None else ()), *changed.values()], findings)
        with self._changed:
            self._is_restored = self._is_restored or found is not None
        self._wait(changed, replaced)

    def nothing_judged(self, reason: str, movements: Movements) -> None:
        """No objective is met again, and none is newly missed; what else is the matter is known."""
        changed = self._book.nothing_judged(self._clock.now_ms(), self._matters(), movements)
        self._wait({one.id: one for one in changed})

    def _count(self, records: Iterable[IncidentRecord], findings: Mapping[DatastreamName, Finding]) -> None:
        if self._counts is not None:
            for one in records:
                finding = findings.get(DatastreamName(one.datastream))
                self._counts.add(one, None if finding is None else finding.subject)

    def _wait(self, changed: Mapping[str, IncidentRecord], replaced: frozenset[str] = frozenset()) -> None:
        """What is to be written, a bounded part of it; the rest comes with its next change."""
        notes = dict(self._notes())
        with self._changed:
            self._waiting |= changed
            for one in [*replaced, *list(self._waiting)[: max(0, len(self._waiting) - _MOST_WAITING)]]:
                self._waiting.pop(one, None)
            self._noted = notes
            self._changed.notify()

    def _new_notes(self) -> dict[str, bytes | None]:
        """What the store does not have yet, a bounded part of it at a time."""
        new: dict[str, bytes | None] = {
            key: one for key, one in self._noted.items() if self._stored_notes.get(key) != one
        }
        new |= dict.fromkeys(self._stored_notes.keys() - self._noted.keys())
        return dict(islice(new.items(), _MOST_WAITING))

    def _run(self) -> None:
        pause = 0.0
        while self._pause(pause):
            try:
                self._work()
            except Fenced as error:
                _log.warning("another monitor keeps incidents from now on", reason=error.message)
                self.oust()
                self._is_shut_out = True
            except Exception as error:  # noqa: BLE001 - the bulkhead between the judging and the topic
                pause = min(_LONGEST_PAUSE_SECONDS, 2 * pause or _FIRST_PAUSE_SECONDS)
                self._tell(reason_of(error))
            else:
                pause = 0.0
                self._tell("")

    def _pause(self, seconds: float) -> bool:
        """Wait until there is something to do, or that long after a failure; false: it is over."""
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
        """One call of the store: it reads until it has read once, and then writes. What is written is counted
        where nothing waits to be written."""
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
            self._stored_notes |= {key: one for key, one in notes.items() if one is not None}
            for key in [key for key, one in notes.items() if one is None]:
                self._stored_notes.pop(key, None)
            for one, record in records.items():
                if self._waiting.get(one) is record:
                    del self._waiting[one]

    def _count_one(self) -> None:
        record = None if self._counts is None else self._counts.counted()
        if record is not None and record.deliveries is not None:
            with self._changed:
                self._waiting.setdefault(record.id, record)

    def _tell(self, reason: str) -> None:
        """A line when it begins, when its reason changes and when it is over."""
        if reason and reason != self._trouble:
            _log.error("incidents are not kept now", reason=reason)
        elif self._trouble and not reason:
            _log.info("incidents are kept again")
        self._trouble = reason
