"""Commits the positions of lanes to consumer groups at the source, for standard Kafka tools.

Copying does not depend on these commits, so failures are only logged.
"""

from __future__ import annotations

from mirror.client.event_loop import Promise
from mirror.errors import HeadraceError
from mirror.lane.lane import Lane
from mirror.loggers import get_logger
from mirror.model.identifiers import ClusterRef
from mirror.model.topics import TopicPartition
from mirror.protocol.control.cluster import GROUP
from mirror.protocol.control.offsets import commit_offsets
from mirror.replication.context import EngineContext
from mirror.replication.lanes.delivery import UnsavedProgress

_log = get_logger(__name__)


class GroupCommits:
    """Commits the positions of lanes to consumer groups, with at most one commit in progress per source."""

    def __init__(self, context: EngineContext, unsaved: UnsavedProgress) -> None:
        self._context = context
        self._unsaved = unsaved
        self._showing: dict[ClusterRef, Promise[None]] = {}

    async def commit(self) -> None:
        """Commit the positions that became durable since the previous commit."""
        moved = self._unsaved.take_moved()
        by_source: dict[ClusterRef, dict[Lane, int]] = {}
        for lane, position in moved.items():
            showing = self._showing.get(lane.spec.source)
            if showing is None or showing.is_done:
                by_source.setdefault(lane.spec.source, {})[lane] = position
            else:
                self._unsaved.moved.setdefault(lane, position)
        shown = {
            source: self._context.loop.spawn(self._show(source, mine)) for source, mine in by_source.items()
        }
        self._showing.update(shown)
        for commit in shown.values():
            await commit

    async def commit_last(self) -> None:
        """Commit the final positions after any commit in progress, whose positions may be older."""
        for commit in self._showing.values():
            await commit
        await self.commit()

    async def _show(self, source: ClusterRef, moved: dict[Lane, int]) -> None:
        by_group: dict[str, dict[TopicPartition, int]] = {}
        for lane, position in moved.items():
            by_group.setdefault(lane.spec.consumer_group, {})[lane.key.partition] = position
        try:
            for group, offsets in by_group.items():
                await self._commit(source, group, offsets)
        except HeadraceError as error:
            _log.warning("cannot commit consumer group positions", cluster=source, reason=str(error))
            for lane, position in moved.items():
                self._unsaved.moved.setdefault(lane, position)
        except Exception:  # noqa: BLE001 - it affects only the group positions of one cluster
            _log.exception("cannot commit consumer group positions", cluster=source)

    async def _commit(self, source: ClusterRef, group: str, offsets: dict[TopicPartition, int]) -> None:
        call = commit_offsets(group, offsets)
        codes = await self._context.cluster(source).coordinators.ask(
            GROUP, group, call, lambda found: max(found.values(), default=0)
        )
        if any(codes.values()):
            failed = sorted(set(codes.values()) - {0})
            _log.warning("consumer group positions rejected", cluster=source, group=group, codes=failed)
