"""Finds definitions that the coordination store has lost, and keeps a copy of all definitions in a file."""

from __future__ import annotations

import json
import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

from mirror.background_thread import BackgroundThread
from mirror.coordination.datastream_records.loss_store import LostStore
from mirror.coordination.stores.definition_document import from_document, to_document
from mirror.coordination.stores.definitions import Definitions, DefinitionStore
from mirror.coordination.stores.deletion_record import Deletions
from mirror.errors import InvalidRequest
from mirror.files import replace_file
from mirror.instance.health import Health
from mirror.loggers import get_logger
from mirror.model import bounds
from mirror.model.datastreams.datastream import Datastream, DatastreamStatus
from mirror.model.documents import parsed
from mirror.model.identifiers import DatastreamName, InstanceName
from mirror.model.reasons import damage_of, legible
from mirror.ports import NodeStore, Watch
from mirror.wording import counted, first_few

Known = Mapping[DatastreamName, Datastream]
_MOST_DEFINITIONS: Final = 1_000_000
_REST_SECONDS: Final = 1.0
"""Minimum seconds between two writes of the file, because definitions may change often."""
_DAMAGES: Final = (InvalidRequest, AttributeError, KeyError, TypeError, ValueError)
_log = get_logger(__name__)


class DefinitionFile(BackgroundThread):
    """A local file with all definitions that an instance knows, written on a background thread.

    `folder`: created if missing. If None, nothing is stored.
    """

    def __init__(self, folder: Path | None, instance: InstanceName) -> None:
        super().__init__("definition-file", is_daemon=False)
        self._path = None if folder is None else folder / f"definitions-{quote(instance, safe='')}.json"
        self._work = threading.Condition()
        self._waiting: Known | None = None
        self._trouble = ""

    @property
    def trouble(self) -> str:
        """Reason why the file could not be written last time; empty after a success."""
        return self._trouble

    def load(self) -> Known:
        """Read the definitions stored in the file. Unreadable definitions are logged and skipped."""
        if self._path is None:
            return {}
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return {}
        except OSError as error:
            _log.error("cannot read definitions", file=str(self._path), reason=legible(str(error)))
            return {}
        return _from_bytes(data, self._path)

    def keep(self, known: Known) -> None:
        """Schedule a write of the given definitions. Never blocks."""
        with self._work:
            self._waiting = known
            self._work.notify()

    def wake(self) -> None:
        """Make the writing thread check for new work."""
        with self._work:
            self._work.notify()

    def _run(self) -> None:
        path = self._path
        while path is not None and (known := self._next()) is not None:
            try:
                _write(path, _to_bytes(known))
            except OSError as error:
                reason = legible(f"{error.strerror or error}: {path}")
                if reason != self._trouble:
                    _log.error("cannot store definitions", file=str(path), reason=reason)
                self._trouble = reason
            else:
                self._trouble = ""
            self._stopping.wait(_REST_SECONDS)

    def _next(self) -> Known | None:
        """Wait for definitions to write, and return them. Return None at the end of the process."""
        with self._work:
            self._work.wait_for(lambda: self._waiting is not None or self._stopping.is_set())
            known, self._waiting = self._waiting, None
            return known


def _to_bytes(known: Known) -> bytes:
    documents = [to_document(datastream) for _, datastream in sorted(known.items())]
    return json.dumps({"definitions": documents}, indent=1).encode()


def _from_bytes(data: bytes, path: Path) -> Known:
    found: dict[DatastreamName, Datastream] = {}
    try:
        documents = bounds.sequence("definitions", parsed(data)["definitions"], _MOST_DEFINITIONS)
    except _DAMAGES as error:
        _log.error("cannot read definitions", file=str(path), reason=damage_of(error))
        return found
    for document in documents:
        try:
            datastream = from_document(document)
        except _DAMAGES as error:
            _log.error("cannot read definition", file=str(path), reason=damage_of(error))
        else:
            found[datastream.name] = datastream
    return found


def _write(path: Path, data: bytes) -> None:
    """Replace the content of a file atomically. Raises OSError."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    replace_file(path, data)


_PART: Final = "definitions"
_MEMORY_PART: Final = "state directory"
_NAMES_SHOWN: Final = 20


class LossWatch:
    """Detects definitions that the store has lost. Used by the follower's thread. `memory`: keeps definitions
    beyond the process's lifetime."""

    def __init__(self, nodes: NodeStore, memory: DefinitionFile) -> None:
        self._definitions = DefinitionStore(nodes)
        self._deletions = Deletions(nodes)
        self._store = LostStore(nodes)
        self._memory = memory
        self._known: Known | None = None
        self._seen: Definitions | None = None
        self._has_changed = threading.Event()
        self._lost: frozenset[DatastreamName] = frozenset()

    def start(self) -> None:
        """Start storing definitions in the file."""
        self._memory.start()

    def stop(self, deadline_seconds: float) -> None:
        """Finish the pending write of definitions. Idempotent."""
        self._memory.stop(deadline_seconds)

    def compare_again(self) -> None:
        """Repeat the comparison of definitions in the follower's next iteration. Called in a new session."""
        self._seen = None

    def compare(self, definitions: Definitions, wake: Watch) -> None:
        """Find definitions that the store has lost. Does nothing if nothing has changed. `wake`: called from
        any thread when another instance publishes, restores or forgets a lost definition. Raises Unreachable,
        SessionLost."""
        if definitions is self._seen and not self._has_changed.is_set():
            return
        self._has_changed.clear()
        self._seen = None
        before = self._memory.load() if self._known is None else self._known
        present = {stored.datastream.name: stored.datastream for stored in definitions.readable}
        names = present.keys() | {definition.name for definition in definitions.damaged}
        known = {**before, **present}
        self._publish(known, names)
        lost_ones = self._store.all(_ChangeOfLosses(self._has_changed, wake))
        published = {stored.datastream.name: stored.datastream for stored in lost_ones}
        found = names | self._deletions.of(published.values())
        for name in published.keys() & found:
            self._store.remove(name)
        lost = {name: datastream for name, datastream in published.items() if name not in found}
        known = {**{name: datastream for name, datastream in known.items() if name in names}, **lost}
        if self._known is None or known != self._known:
            self._memory.keep(known)
        self._known, self._seen = known, definitions
        self._note(frozenset(lost))

    def report(self, health: Health) -> None:
        """Report lost datastreams and a failed write of the definition file in health."""
        if self._lost:
            health.report(_PART, False, _sentence(self._lost))
        else:
            health.forget(_PART)
        if self._memory.trouble:
            sentence = f"cannot store definitions: {self._memory.trouble}"
            health.report(_MEMORY_PART, True, sentence)
        else:
            health.forget(_MEMORY_PART)

    def _publish(self, known: Known, names: Collection[DatastreamName]) -> None:
        """Publish missing definitions that are neither deleted nor being deleted."""
        missing = {
            name: datastream
            for name, datastream in known.items()
            if name not in names and datastream.status is not DatastreamStatus.DELETING
        }
        if not missing:
            return
        self._definitions.catch_up()  # the server of this session may lag behind others
        there = self._definitions.read_each(sorted(missing))
        deleted = self._deletions.of(missing.values())
        if not self._store.publish(
            [datastream for name, datastream in missing.items() if name not in there.keys() | deleted]
        ):
            self._has_changed.set()

    def _note(self, lost: frozenset[DatastreamName]) -> None:
        for name in sorted(lost - self._lost):
            _log.error("definition lost", datastream=legible(name))
        for name in sorted(self._lost - lost):
            _log.info("definition is no longer lost", datastream=legible(name))
        self._lost = lost


@dataclass(frozen=True, slots=True)
class _ChangeOfLosses:
    """Watch for changes of lost definitions. All watches of an instance are equal, so the store registers
    only one."""

    changed: threading.Event
    wake: Watch

    def __call__(self) -> None:
        self.changed.set()
        self.wake()


def _sentence(lost: Collection[DatastreamName]) -> str:
    names = [legible(name) for name in sorted(lost)]
    return (
        f"the coordination store has lost {counted(len(names), 'datastream')}:"
        f" {first_few(names, _NAMES_SHOWN)};"
        " restore them with headrace datastream restore, or drop them with headrace datastream forget;"
        " checkpoints are kept"
    )
