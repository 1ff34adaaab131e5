"""Tracks uncopied partitions on the leader, for REST, metrics and health."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from mirror.coordination.partition_selection import TopicsByCluster
from mirror.coordination.plan_decision import Decision, FleetState
from mirror.coordination.reconcile import copied
from mirror.errors import HeadraceError
from mirror.instance.backlog.backlog import Backlog, Route, WaitingAges
from mirror.instance.backlog.partitions import UncopiedPartition, UncopiedState, paused_of, without_task
from mirror.instance.health import Health
from mirror.instance.problem_board import ProblemBoard
from mirror.model.datastreams.datastream import Datastream, Halt, PartitionPause
from mirror.model.datastreams.pauses import moment_text
from mirror.model.identifiers import ClusterRef, DatastreamName, GroupName
from mirror.model.latency import age_ms
from mirror.model.movement.history import NO_HISTORY, LaneHistory, LaneSample
from mirror.model.reasons import legible
from mirror.model.topics import SourcePosition, TopicPartition
from mirror.ports import Clock
from mirror.wording import counted, first_few

_PAUSED: Final = "paused by people"
_BY_RULE: Final = "excluded by a rule: see the problem of the datastream"
_CURRENT_SECONDS: Final = 15.0
"""Maximum age of a displayed position in seconds."""
_NOTHING: Final[frozenset[TopicPartition]] = frozenset()


@dataclass(frozen=True, slots=True)
class UncopiedLane:
    """An uncopied partition. `position`: its offsets on the source cluster, None if unknown."""

    what: UncopiedPartition
    position: SourcePosition | None
    history: LaneHistory = NO_HISTORY
    """Changes at the source since the leader first found the partition uncopied."""

    @property
    def lag_records(self) -> int | None:
        """Number of uncopied records at the source, or None if unknown."""
        if self.position is None or self.position.committed is None:
            return None
        return max(self.position.end - self.position.committed, 0)

    @property
    def lag_ms(self) -> int | None:
        """Age of the first uncopied record that still exists; 0 without such a record."""
        if self.lag_records == 0:
            return 0
        return None if self.lag_records is None else self.history.age_ms

    @property
    def retained_records(self) -> int | None:
        """Number of copied records that the source still has. None if unknown. Retention deletes them
        first."""
        if self.position is None or self.position.committed is None:
            return None
        return max(self.position.committed - self.position.first, 0)

    @property
    def lost_records(self) -> int | None:
        """Number of uncopied records that the source has already deleted."""
        if self.position is None or self.position.committed is None:
            return None
        return max(self.position.first - self.position.committed, 0)


class UncopiedWatch:
    """Tracks partitions that are not copied. Used by the leader's thread. Any thread may read `lanes`."""

    def __init__(self, backlog: Backlog, ages: WaitingAges, clock: Clock, health: Health) -> None:
        self._backlog = backlog
        self._ages = ages
        self._clock = clock
        self._health = health
        self._topics: dict[ClusterRef, Mapping[str, int]] = {}
        self._cached: dict[DatastreamName, tuple[object, tuple[UncopiedPartition, ...]]] = {}
        self._found: tuple[float, tuple[UncopiedLane, ...]] = (0.0, ())

    @property
    def lanes(self) -> tuple[UncopiedLane, ...]:
        """Uncopied partitions as of the last tick, while this instance leads. If the last tick was long ago,
        for example because ticks fail, positions are omitted."""
        looked_at, lanes = self._found
        if self._clock.monotonic() - looked_at <= _CURRENT_SECONDS:
            return lanes
        return tuple(replace(lane, position=None) for lane in lanes)

    def update(self, fleet: FleetState, decision: Decision, board: ProblemBoard) -> None:
        """Find uncopied partitions and their backlog, and report both in health and as problems."""
        self._topics.update(fleet.topics)
        plan = decision.plan or fleet.plan
        members: dict[GroupName, list[Datastream]] = {}
        for datastream in fleet.datastreams:
            members.setdefault(datastream.group, []).append(datastream)
        planned = {group: copied(plan, group, some) for group, some in members.items()}
        taskless = without_task(fleet, decision)
        found: list[UncopiedPartition] = []
        routes: dict[DatastreamName, Route] = {}
        for datastream in fleet.datastreams:
            with board.guarding(datastream.name):
                left = taskless.get(datastream.group, {})
                mine = self._lanes_of(datastream, fleet, left, planned[datastream.group])
                found += mine
                routes[datastream.name] = (datastream.source, datastream.consumer_group)
                missing = [each for each in mine if each.state is UncopiedState.UNPLACED]
                # A partition that several members of the group select is reported once.
                shown = {each.partition for each in missing}
                taskless[datastream.group] = {at: why for at, why in left.items() if at not in shown}
                if missing and datastream.group not in decision.problems:
                    board.note(HeadraceError(_sentence(missing)), datastream.name)
        self._cached = {name: cached for name, cached in self._cached.items() if name in routes}
        wanted: dict[Route, list[TopicPartition]] = {}
        for each in found:
            wanted.setdefault(routes[each.datastream], []).append(each.partition)
        self._backlog.refresh(wanted)
        self._ages.refresh(self._waiting(wanted))
        now = self._clock.monotonic()
        before = {(lane.what.datastream, lane.what.partition): lane.history for lane in self._found[1]}
        lanes = tuple(
            self._lane(each, routes[each.datastream], before.get((each.datastream, each.partition)), now)
            for each in found
        )
        self._found = now, lanes
        self._report(fleet.datastreams, found)

    def _lane(
        self, uncopied: UncopiedPartition, route: Route, before: LaneHistory | None, now: float
    ) -> UncopiedLane:
        position = self._backlog.position(route, uncopied.partition)
        history = NO_HISTORY if before is None else before
        if position is not None and position.committed is not None:
            end = position.end
            record = self._ages.of(route[0], uncopied.partition, max(position.committed, position.first))
            age = None if record.written_ms is None else age_ms(self._clock.now_ms(), record.written_ms)
            sample = LaneSample(now, position.committed, end, end, age, position.first)
            history = history.after(sample, retention=record.retention)
        return UncopiedLane(uncopied, position, history)

    def _waiting(
        self, wanted: Mapping[Route, Iterable[TopicPartition]]
    ) -> dict[tuple[ClusterRef, TopicPartition], int]:
        """Map each partition with uncopied records to the offset of the first one."""
        found: dict[tuple[ClusterRef, TopicPartition], int] = {}
        for route, partitions in wanted.items():
            for partition in partitions:
                position = self._backlog.position(route, partition)
                if position is not None and position.committed is not None:
                    offset = max(position.committed, position.first)
                    if offset < position.end:
                        found[route[0], partition] = offset
        return found

    def resign(self) -> None:
        """Forget all uncopied partitions after losing leadership."""
        self._found, self._cached = (0.0, ()), {}
        self._health.forget(_PAUSED)

    def _lanes_of(
        self,
        datastream: Datastream,
        fleet: FleetState,
        taskless: Mapping[TopicPartition, str],
        planned: frozenset[TopicPartition],
    ) -> tuple[UncopiedPartition, ...]:
        """Return the uncopied partitions of a datastream; the same object while nothing changes."""
        if not (datastream.status.is_mirrored or datastream.status.is_halted):
            return ()
        is_known = datastream.source in self._topics
        wanted = fleet.matching.wanted((datastream,), self._topics) if is_known else None
        limits = fleet.matching.limits(datastream.name)
        refused = fleet.refused.get(datastream.name)
        inputs = (datastream, wanted, taskless, planned, limits, refused)
        before = self._cached.get(datastream.name)
        if before is not None and before[0] == inputs:
            return before[1]
        if wanted is None:
            before_now = fleet.plan.planned.get(datastream.group, _NOTHING)
            wanted = frozenset(each for each in before_now if datastream.selection.matches(each.topic))
        # This datastream does not block topics that another datastream of the group copies.
        is_halted, found = datastream.status.is_halted, dict[TopicPartition, UncopiedPartition]()
        if is_halted or datastream.pauses:
            found = paused_of(datastream, wanted - planned if is_halted else wanted)
        for each in wanted - found.keys() if datastream.status.is_mirrored else ():
            if refused is not None and each not in planned:
                found[each] = _uncopied(datastream, each, UncopiedState.LEFT_OUT, refused)
            elif each in taskless:
                found[each] = _uncopied(datastream, each, UncopiedState.UNPLACED, taskless[each])
        if datastream.status.is_mirrored and is_known and (limits.left_out or limits.partitions):
            for each in _left_out(datastream, fleet, self._topics, wanted | planned):
                found[each] = _uncopied(datastream, each, UncopiedState.LEFT_OUT, _BY_RULE)
        partitions = tuple(found[each] for each in sorted(found))
        self._cached[datastream.name] = inputs, partitions
        return partitions

    def _report(self, datastreams: Iterable[Datastream], found: Iterable[UncopiedPartition]) -> None:
        whole = [datastream for datastream in datastreams if datastream.status.is_halted]
        some = [
            datastream for datastream in datastreams if datastream.status.is_mirrored and datastream.pauses
        ]
        if whole or some:
            names = [
                f"{datastream.name} ({_cause(datastream.status, datastream.halt)})" for datastream in whole
            ]
            names += [f"{datastream.name} ({_topics(datastream)})" for datastream in some]
            count = sum(each.state is UncopiedState.PAUSED for each in found)
            sentence = (
                f"{counted(count, 'partition is', 'partitions are')} paused "
                f"by people and not copied: {first_few(names)}"
            )
            self._health.report(_PAUSED, True, sentence)
        else:
            self._health.forget(_PAUSED)


def _left_out(
    datastream: Datastream, fleet: FleetState, topics: TopicsByCluster, copied: frozenset[TopicPartition]
) -> list[TopicPartition]:
    """Return the partitions that the datastream selects but is not allowed to copy."""
    limits = fleet.matching.limits(datastream.name)
    counts = topics[datastream.source]
    limited = fleet.matching.selected(datastream, topics) & (limits.left_out | limits.partitions.keys())
    every = (TopicPartition(topic, number) for topic in sorted(limited) for number in range(counts[topic]))
    return [each for each in every if each not in copied]


def _uncopied(
    datastream: Datastream, partition: TopicPartition, state: UncopiedState, reason: str
) -> UncopiedPartition:
    return UncopiedPartition(datastream.name, GroupName(datastream.group), partition, state, legible(reason))


def _sentence(missing: list[UncopiedPartition]) -> str:
    names = first_few([str(each.partition) for each in missing])
    they = counted(
        len(missing), "partition has no task and is not copied", "partitions have no task and are not copied"
    )
    return f"{they}: {names}: {missing[0].reason}"


def _topics(datastream: Datastream) -> str:
    paused = sorted(datastream.pauses.items())
    return first_few([_cause(f"{topic}:{_numbers(pause)}", pause) for topic, pause in paused])


def _numbers(pause: PartitionPause) -> str:
    if pause.numbers is None:
        return "*"
    return first_few([str(number) for number in sorted(pause.numbers)])


def _cause(state: str, cause: Halt | PartitionPause | None) -> str:
    """Describe a pause in a sentence: its subject, operator, end and reason."""
    requester = f" by {cause.requested_by}" if cause is not None and cause.requested_by else ""
    until_ms = cause.until_ms if cause is not None else None
    until = f" until {moment_text(until_ms)}" if until_ms is not None else ""
    why = f": {cause.reason}" if cause is not None and cause.reason else ""
    return legible(f"{state}{requester}{until}{why}")
