"""Detects lost definitions by comparing memory and coordination store.

A definition that is missing without having been deleted is lost. Lost definitions are published for all
instances, reported in health, and kept until an operator restores, forgets or recreates the datastream.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from typing import Final

import structlog

from mirror.coordination.datastream_records.loss_store import LostStore
from mirror.coordination.stores.definitions import Definitions, DefinitionStore
from mirror.coordination.stores.deletion_record import Deletions
from mirror.errors import legible
from mirror.instance.health import Health
from mirror.instance.losses.definition_file import DefinitionFile, Known
from mirror.model.datastreams.datastream import DatastreamStatus
from mirror.model.identifiers import DatastreamName
from mirror.ports import NodeStore, Watch
from mirror.wording import counted, first_few

_PART: Final = "definitions"
_MEMORY_PART: Final = "state directory"
_NAMES_SHOWN: Final = 20
_log = structlog.get_logger(__name__)


class LossWatch:
    """Detects lost definitions. Used by the follower's thread.

    `memory`: definitions that outlive the process.
    """

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
        """Start storing definitions."""
        self._memory.start()

    def stop(self, deadline_seconds: float) -> None:
        """Finish the pending write. Idempotent."""
        self._memory.stop(deadline_seconds)

    def look_again(self) -> None:
        """Compare the definitions again in the next iteration of the follower's loop. Call this after a new
        session."""
        self._seen = None

    def compare(self, definitions: Definitions, wake: Watch) -> None:
        """Find lost definitions if anything has changed.

        `wake` is called, from any thread, when another instance publishes, restores or forgets a lost
        definition. Raises Unreachable and SessionLost.
        """
        if definitions is self._seen and not self._has_changed.is_set():
            return
        self._has_changed.clear()
        self._seen = None
        before = self._memory.load() if self._known is None else self._known
        present = {stored.datastream.name: stored.datastream for stored in definitions.readable}
        names = present.keys() | {definition.name for definition in definitions.damaged}
        known = {**before, **present}
        self._publish(known, names)
        published = {
            stored.datastream.name: stored.datastream for stored in self._store.all(self._notice(wake))
        }
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
        """Report lost datastreams, and a failed write of definitions."""
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
        """Publish missing definitions unless they were deleted or are being deleted."""
        missing = {
            name: datastream
            for name, datastream in known.items()
            if name not in names and datastream.status is not DatastreamStatus.DELETING
        }
        if not missing:
            return
        self._definitions.catch_up()  # the server of this session may be behind the others
        there = self._definitions.look_at(sorted(missing))
        deleted = self._deletions.of(missing.values())
        if not self._store.publish(
            [datastream for name, datastream in missing.items() if name not in there.keys() | deleted]
        ):
            self._has_changed.set()

    def _notice(self, wake: Watch) -> Watch:
        return _ChangeOfLosses(self._has_changed, wake)

    def _note(self, lost: frozenset[DatastreamName]) -> None:
        for name in sorted(lost - self._lost):
            _log.error("definition lost", datastream=legible(name))
        for name in sorted(self._lost - lost):
            _log.info("definition is no longer lost", datastream=legible(name))
        self._lost = lost


class _ChangeOfLosses:
    """Watch on changes of lost definitions.

    All watches of an instance compare equal, so that the store registers only one.
    """

    def __init__(self, changed: threading.Event, wake: Watch) -> None:
        self._changed = changed
        self._wake = wake

    def __call__(self) -> None:
        self._changed.set()
        self._wake()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ChangeOfLosses) and other._changed is self._changed

    def __hash__(self) -> int:
        return id(self._changed)


def _sentence(lost: Collection[DatastreamName]) -> str:
    names = [legible(name) for name in sorted(lost)]
    return (
        f"the coordination store has lost {counted(len(names), 'datastream')}:"
        f" {first_few(names, _NAMES_SHOWN)};"
        " restore them with headrace datastream restore, or drop them with headrace datastream forget;"
        " checkpoints are kept"
    )
