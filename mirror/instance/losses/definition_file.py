"""Stores definitions on the local disk, so that a restarted instance can detect lost definitions.

Only the owner of the file can read it, because definitions are not encrypted. A separate thread writes the
file, because a slow disk must not delay leases.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import quote

import structlog

from mirror.background_thread import BackgroundThread
from mirror.coordination.stores.definition_document import from_document, to_document
from mirror.errors import InvalidRequest, damage_of, legible
from mirror.files import replace_file
from mirror.model import bounds
from mirror.model.datastreams.datastream import Datastream
from mirror.model.documents import parsed
from mirror.model.identifiers import DatastreamName, InstanceName

Known = Mapping[DatastreamName, Datastream]
_MOST_DEFINITIONS: Final = 1_000_000
_REST_SECONDS: Final = 1.0
"""Minimum seconds between writes, because definitions may change often."""
_DAMAGES: Final = (InvalidRequest, AttributeError, KeyError, TypeError, ValueError)
_log = structlog.get_logger(__name__)


class DefinitionFile(BackgroundThread):
    """A file with the definitions that an instance knows.

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
        """Reason why the last write failed, empty after a success."""
        return self._trouble

    def load(self) -> Known:
        """Read the definitions in the file. Unreadable definitions are logged and skipped."""
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
        """Schedule a write of these definitions. Never blocks."""
        with self._work:
            self._waiting = known
            self._work.notify()

    def wake(self) -> None:
        """Let the thread check its work again."""
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
        """Wait for definitions to write, and return them.

        Returns None if all are written and the process ends.
        """
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
    """Replace the file. Raises OSError."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    replace_file(path, data)
