"""Commits the positions of lanes to consumer groups at the source, for standard Kafka tools.

Copying does not depend on these commits, so failures are only logged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mirror.client.event_loop import Promise
from mirror.errors import HeadraceError
from mirror.lane.lane import Lane
from mirror.lane.lifecycle import LaneState
from mirror.loggers import get_logger
from mirror.model.identifiers import ClusterRef
from mirror.model.topics import TopicPartition
from mirror.protocol.codes import MISSING, Code
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
        """Wait for commits in progress, whose positions may be older, and then commit the final positions."""
        for commit in self._showing.values():
            await commit
        await self.commit()

    async def _show(self, source: ClusterRef, moved: dict[Lane, int]) -> None:
        by_group: dict[str, list[Lane]] = {}
        for lane in moved:
            by_group.setdefault(lane.spec.consumer_group, []).append(lane)
        for group, lanes in by_group.items():
            positions = {lane: moved[lane] for lane in lanes}
            try:
                self._keep(positions, await self._commit(source, group, positions))
            except HeadraceError as error:
                _log.warning(
                    "cannot commit consumer group positions", cluster=source, group=group, reason=str(error)
                )
                self._keep(positions, lanes)
            except Exception:  # noqa: BLE001 - it affects only the positions of one group
                _log.exception("cannot commit consumer group positions", cluster=source, group=group)

    def _keep(self, positions: Mapping[Lane, int], lanes: Iterable[Lane]) -> None:
        """Schedule another commit of the positions of the given lanes."""
        for lane in lanes:
            self._unsaved.moved.setdefault(lane, positions[lane])

    async def _commit(self, source: ClusterRef, group: str, positions: Mapping[Lane, int]) -> list[Lane]:
        """Commit positions. Return the running lanes whose topics the brokers do not know (yet)."""
        call = commit_offsets(group, {lane.key.partition: positions[lane] for lane in positions})
        codes = await self._context.cluster(source).coordinators.ask(GROUP, group, call, _worst)
        if refused := set(codes.values()) - {Code.NONE, *MISSING}:
            _log.warning(
                "consumer group positions rejected", cluster=source, group=group, codes=sorted(refused)
            )
        unknown = (lane for lane in positions if codes.get(lane.key.partition, Code.NONE) in MISSING)
        return [lane for lane in unknown if lane.state is not LaneState.STOPPED]


def _worst(codes: Mapping[TopicPartition, int]) -> int:
    """Return an error code that affects the whole group, or 0. Ignores topics that may have been deleted."""
    return max((code for code in codes.values() if code not in MISSING), default=Code.NONE)
