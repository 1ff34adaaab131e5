"""Copies of a pair's state in the progress topics of both clusters."""

from __future__ import annotations

from typing import Final

from mirror.errors import CorruptData
from mirror.jobs.dr.operation import PairState, read_state, write_state
from mirror.jobs.progress_logs import progress_log
from mirror.model.identifiers import ClusterRef
from mirror.replication.context import EngineContext
from mirror.replication.progress_log import ProgressLog

_PREFIX: Final = "~dr/"
"""Prefix of record keys; the name of a group of datastreams never starts with it."""


class StateCopy:
    """Reads and writes the state of one pair on one of its clusters.

    Use only within the event loop of the context.
    """

    def __init__(self, context: EngineContext, cluster: ClusterRef, name: str) -> None:
        self._context = context
        self._key = f"{_PREFIX}{name}".encode()
        self._log = progress_log(_StateLog, context, cluster)

    async def read(self) -> PairState | None:
        """Return the stored state of the pair, or None if there is none.

        Raises Unreachable, CorruptData, NewerFormat.
        """
        value = await self._log.value_of(self._key)
        if value is None and self._log.is_damaged:
            raise CorruptData(f"a batch of topic {self._log.topic} is unreadable, and may contain the state")
        return None if value is None else read_state(value)

    async def write(self, state: PairState) -> None:
        """Write the state of the pair, and wait until all replicas have stored it. Raises Unreachable,
        NotAuthorized, UnsafeProgressTopic."""
        await self._log.require_safe()
        await self._log.save([(self._key, write_state(state))], self._context.clock.now_ms())


class _StateLog(ProgressLog):
    """Progress topic that caches only the stored states of pairs."""

    async def value_of(self, key: bytes) -> bytes | None:
        """Return the newest state stored under a key. Raises Unreachable, CorruptData, NewerFormat."""
        self._stored.want({key})
        await self.catch_up()
        found = [records[key] for records in self._stored.partitions if key in records]
        return max(found, key=lambda value: read_state(value).version, default=None)
