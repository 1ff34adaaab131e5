"""Reads the retention of the source topics of late lanes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mirror.errors import HeadraceError
from mirror.loggers import get_logger
from mirror.model.identifiers import ClusterRef
from mirror.model.movement.history import UNKNOWN_RETENTION, Retention
from mirror.protocol.control.topics import describe_settings, retention_of
from mirror.replication.context import EngineContext

_log = get_logger(__name__)
_AGE_SECONDS: Final = 300.0
_AT_ONCE: Final = 200

_Topic = tuple[ClusterRef, str]


class RetentionCache:
    """Cache of the retention of source topics. Missing entries, and entries older than some minutes, are
    requested. Without the permission to describe a topic, its retention remains unknown."""

    def __init__(self, context: EngineContext) -> None:
        self._context = context
        self._known: dict[_Topic, tuple[float, Retention]] = {}
        self._wanted: dict[ClusterRef, set[str]] = {}

    def of(self, source: ClusterRef, topic: str) -> Retention:
        """Return the last known retention of a topic, and refresh an old entry in the background."""
        known = self._known.get((source, topic))
        if known is None or self._context.loop.now() - known[0] > _AGE_SECONDS:
            self._request(source, topic)
        return known[1] if known else UNKNOWN_RETENTION

    def _request(self, source: ClusterRef, topic: str) -> None:
        topics = self._wanted.setdefault(source, set())
        if not topics:
            self._context.loop.spawn(self._read_wanted(source))
        topics.add(topic)

    async def _read_wanted(self, source: ClusterRef) -> None:
        await self._context.loop.sleep(0.0)  # batched with the other topics of this loop iteration
        topics = sorted(self._wanted.get(source, ()))
        try:
            for start in range(0, len(topics), _AT_ONCE):
                await self._ask(source, topics[start : start + _AT_ONCE])
        except HeadraceError as error:
            _log.debug("retention of topics unknown", cluster=source, reason=str(error))
        finally:
            self._wanted.pop(source, None)

    async def _ask(self, source: ClusterRef, topics: Sequence[str]) -> None:
        found = await self._context.cluster(source).ask(describe_settings(topics))
        now = self._context.loop.now()
        for topic in topics:
            self._known[source, topic] = now, retention_of(found.get(topic, {}))
