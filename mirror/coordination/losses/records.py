"""Records beside a definition, for a datastream that is restored: ZooKeeper has lost them as well."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from mirror.coordination.beginnings.first_partitions import begins_at_end
from mirror.coordination.beginnings.store import FirstPartitionsStore
from mirror.coordination.stores import znodes
from mirror.coordination.stores.made_topics import MadeTopics
from mirror.errors import VersionConflict
from mirror.model.datastreams.datastream import Datastream
from mirror.ports import NodeStore

_ATTEMPTS: Final = 5


class RestoredRecords:
    """Written by the instance that restores a datastream."""

    def __init__(self, nodes: NodeStore) -> None:
        self._beginnings = FirstPartitionsStore(nodes)
        self._made, self._adopted = MadeTopics(nodes), MadeTopics(nodes, znodes.ADOPTED)

    def begin(self, datastream: Datastream) -> None:
        """Let partitions without a checkpoint begin at their earliest record, also where the datastream began
        at the end: which of them it had before is unknown, and to copy more is better than to skip."""
        if begins_at_end(datastream):
            self._beginnings.record(datastream, {})

    def claim(self, datastream: Datastream, topics: Collection[str]) -> None:
        """Record the destination topics that its group has written as its own. Those of a datastream that
        does not adopt were made for it. Raises VersionConflict, InvalidRequest."""
        record = self._made if datastream.adopts is False else self._adopted
        for attempt in range(_ATTEMPTS):
            try:
                record.add(datastream.group, datastream.destination, topics)
            except VersionConflict:  # the leader writes it, too
                if attempt == _ATTEMPTS - 1:
                    raise
            else:
                return
