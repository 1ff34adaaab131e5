"""Recreates the nodes of a restored datastream that the store lost together with its definition."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from mirror.coordination.datastream_records.first_partitions import begins_at_end
from mirror.coordination.datastream_records.first_partitions_store import FirstPartitionsStore
from mirror.coordination.stores import znodes
from mirror.coordination.stores.made_topics import MadeTopics
from mirror.errors import VersionConflict
from mirror.model.datastreams.datastream import Datastream
from mirror.ports import NodeStore

_ATTEMPTS: Final = 5


class RestoredRecords:
    """Writes the nodes that a restored datastream needs."""

    def __init__(self, nodes: NodeStore) -> None:
        self._beginnings = FirstPartitionsStore(nodes)
        self._made, self._adopted = MadeTopics(nodes), MadeTopics(nodes, znodes.ADOPTED)

    def begin(self, datastream: Datastream) -> None:
        """Make all partitions without a checkpoint start at their earliest record.

        This also applies to a datastream that started at `latest`. The initial partitions are unknown, and
        copying too many records is better than skipping some.
        """
        if begins_at_end(datastream):
            self._beginnings.record(datastream, {})

    def claim(self, datastream: Datastream, topics: Collection[str]) -> None:
        """Record destination topics as written by the group of a datastream.

        The topics count as created by Headrace, unless the datastream adopts topics. Raises VersionConflict,
        InvalidRequest.
        """
        record = self._made if datastream.adopts is False else self._adopted
        for attempt in range(_ATTEMPTS):
            try:
                record.add(datastream.group, datastream.destination, topics)
            except VersionConflict:  # the leader writes the record, too
                if attempt == _ATTEMPTS - 1:
                    raise
            else:
                return
