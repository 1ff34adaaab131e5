"""Detects concurrent changes of groups and owners with counters (optimistic locking).

A change fails if a related datastream was added or changed concurrently.

A caller reads the counters of the affected groups and owners, checks its change, and increments the counters
in the transaction that stores the change. If two changes are checked concurrently, the second transaction
fails. All names share `BUCKETS` counters, so a change may be retried unnecessarily. Counters are never
removed, so their values never restart.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Final

from mirror.coordination.stores import znodes
from mirror.model.nodes import NewNode, NodeChange, NodeWrite
from mirror.ports import NodeStore

BUCKETS: Final = 1_024


class Guard:
    """Change counters of groups and owners, as of the last `read`.

    `names`: names of groups and owners, or other strings.
    """

    def __init__(self, nodes: NodeStore, names: Iterable[str]) -> None:
        self._nodes = nodes
        self._versions: dict[str, int | None] = dict.fromkeys(sorted({_path(name) for name in names}))

    def read(self) -> None:
        """Read the counters. Datastreams that are listed afterwards include all counted changes."""
        present = self._nodes.read_present(list(self._versions))
        for path in self._versions:
            node = present.get(path)
            self._versions[path] = node.version if node is not None else None

    def changes(self) -> tuple[NodeChange, ...]:
        """Return the changes that make a transaction fail if the groups or owners changed meanwhile."""
        return tuple(
            NewNode(path, b"") if version is None else NodeWrite(path, b"", version)
            for path, version in self._versions.items()
        )

    def advance(self) -> None:
        """Advance the counters after the caller's own transaction, so that its next one succeeds."""
        for path, version in self._versions.items():
            self._versions[path] = 0 if version is None else version + 1


def _path(name: str) -> str:
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()
    return f"{znodes.GUARDS}/{int.from_bytes(digest[:4], 'big') % BUCKETS:04}"
