"""Starts lanes, many at a time: reads their progress, metadata, positions and limits, then copies.

Requests are batched for all lanes. A problem of one lane pauses only that lane.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Final

from mirror.client.cluster import Cluster
from mirror.errors import DataLossDetected, HeadraceError, Refused, TopicRecreated
from mirror.lane.lane import Lane
from mirror.lane.lifecycle import EventKind, LaneState, LifecycleEvent
from mirror.lane.parts.pause import Pause
from mirror.lane.progress import LaneProgress, SourceIdentity
from mirror.loggers import get_logger
from mirror.model.datastreams.datastream import StartPosition
from mirror.model.datastreams.lanes import LaneSpec, LaneStarted
from mirror.model.datastreams.policy import CopyPolicy, Isolation, OnLoss
from mirror.model.identifiers import ClusterRef
from mirror.model.topics import TopicPartition
from mirror.protocol.codes import Code, name_of
from mirror.protocol.control.offsets import EARLIEST, EARLIEST_LOCAL, LATEST, Answers, OffsetAnswer
from mirror.replication.channels.channel_rules import ChannelKey
from mirror.replication.channels.fetcher import Fetcher
from mirror.replication.channels.sender import ROLES, Sender
from mirror.replication.context import EngineContext
from mirror.replication.handlers.ack_handler import AckHandler
from mirror.replication.handlers.fetch_handler import FetchHandler
from mirror.replication.lane_runner import LaneRunner, still_starting
from mirror.replication.lanes.registry import LaneRegistry
from mirror.replication.limits import (
    RoutingRuleCache,
    TopicLimitCache,
    TopicLimits,
    forget_cap,
    forget_other_topics,
)
from mirror.replication.ownership.start_positions import StartPositionFinder, begins_at_offset

_log = get_logger(__name__)
_AT_ONCE: Final = 1000
_OFFSETS_SECONDS: Final = 2.0
"""Time limit for offset lookups in seconds. Partitions without a leader wait until it expires."""

Starting = Callable[[], list[Lane]]
"""Function that returns the lanes whose start is incomplete and was not abandoned."""


class LaneStartup:
    """Starts the lanes in `LaneRegistry.to_start`, many at a time."""

    def __init__(
        self,
        context: EngineContext,
        lanes: LaneRegistry,
        runner: LaneRunner,
        reading: FetchHandler,
        writing: AckHandler,
    ) -> None:
        self._context = context
        self._lanes = lanes
        self._runner = runner
        self._unsaved = lanes.unsaved
        self._reading = reading
        self._source_logs = reading.source_logs
        self._writing = writing
        self._produce_failures = writing.trouble
        self._limits: dict[ClusterRef, TopicLimitCache] = {}
        self._start_positions = StartPositionFinder(context, lanes, runner)
        self._rules = RoutingRuleCache(self._context.settings)

    def pump(self) -> None:
        """Start all lanes that wait to be started."""
        if not self._lanes.to_start:
            return
        lanes = sorted(self._lanes.to_start, key=_route)
        self._lanes.to_start.clear()
        for lane in lanes:
            self._runner.guard(lane, self._open)
        lanes = [lane for lane in lanes if lane.state is LaneState.STARTING]
        for _, group in groupby(lanes, key=_route):
            together = list(group)
            for start in range(0, len(together), _AT_ONCE):
                starting = still_starting(together[start : start + _AT_ONCE])
                self._context.loop.spawn(self._start(starting))

    def expect(self, specs: Sequence[LaneSpec]) -> None:
        """Prepare lanes that another instance still owns. Omits everything that depends on the position at
        which that owner stops."""
        for _, group in groupby(sorted(specs, key=_route_of), key=_route_of):
            self._context.loop.spawn(self._get_ready(list(group)))

    def _open(self, lane: Lane) -> None:
        """Connect to the lane's clusters, and request its stored progress. Raises ConfigError."""
        registry, context, spec = self._lanes, self._context, lane.spec
        if spec.source not in registry.sources:
            cluster, rack = context.cluster(spec.source), context.rack(spec.source)
            registry.sources[spec.source] = Fetcher(cluster, context.settings, self._reading, rack)
        if spec.destination not in registry.sinks:
            registry.sinks[spec.destination] = Sender(
                context.cluster(spec.destination), context.settings, self._writing, context.write_budget
            )
        context.cluster(spec.source).pin(spec.source_id)
        context.cluster(spec.destination).pin(spec.destination_id)
        if not lane.is_loaded:
            context.progress(spec.destination).want([spec.key])

    async def _get_ready(self, specs: Sequence[LaneSpec]) -> None:
        try:
            await self._expect(specs)
        except HeadraceError as error:
            _log.debug("cannot prepare lanes", datastream=specs[0].key.group, reason=str(error))
        except Exception:  # noqa: BLE001 - reported when the lanes start
            _log.exception("cannot prepare lanes", datastream=specs[0].key.group)

    async def _expect(self, specs: Sequence[LaneSpec]) -> None:
        source, target = self._context.cluster(specs[0].source), self._context.cluster(specs[0].destination)
        for spec in specs:
            source.pin(spec.source_id)
            target.pin(spec.destination_id)
        places = {spec.key.partition for spec in specs}
        targets = {TopicPartition(spec.destination_topic, spec.key.partition.partition) for spec in specs}
        committed = {spec.policy.isolation is Isolation.READ_COMMITTED for spec in specs}
        await source.refresh({place.topic for place in places})
        named = {not source.topic_id(place.topic) for place in places}
        roles = [
            ChannelKey(lane, live, named=by_name).role
            for lane in committed
            for live in (False, True)
            for by_name in named
        ]
        await target.refresh({place.topic for place in targets})
        await self._context.progress(specs[0].destination).catch_up([spec.key for spec in specs])
        await self._limits_of(specs[0].destination).look_up({place.topic for place in targets})
        await self._context.loop.together(
            [source.connection(broker, role) for broker in _leaders(source, places) for role in roles]
            + [target.connection(broker, role) for broker in _leaders(target, targets) for role in ROLES]
        )

    def _limits_of(self, destination: ClusterRef) -> TopicLimitCache:
        if destination not in self._limits:
            age = self._context.settings.metadata_age_seconds
            self._limits[destination] = TopicLimitCache(self._context.cluster(destination), age)
        return self._limits[destination]

    async def _start(self, starting: Starting) -> None:
        lanes = starting()
        try:
            await self._load(starting)
            await self._look_around(starting)
            seen = {lane: self._source_id(lane) for lane in starting()}
            await self._find_positions(starting)
        except Exception as error:  # noqa: BLE001 - it affects one route between two clusters
            for lane in starting():
                self._runner.set_aside(lane, error)
            return
        for lane in starting():
            self._runner.guard(lane, partial(self._go, seen[lane]))
        halted = [lane for lane in lanes if lane.state is LaneState.PAUSED and lane.is_loaded]
        if halted:
            self._context.loop.spawn(self._look_at_ends(halted))

    async def _look_at_ends(self, lanes: Sequence[Lane]) -> None:
        """Request the end offsets of paused lanes, because their last Fetch response becomes outdated."""
        source = self._lanes.source(lanes[0]).cluster
        places = {lane.key.partition for lane in lanes}
        try:
            ends = await source.offsets(dict.fromkeys(places, LATEST), seconds=_OFFSETS_SECONDS)
        except Exception as error:  # noqa: BLE001 - the next try repeats the lookup
            _log.debug("end offsets of paused partitions unknown", cluster=source.name, reason=str(error))
            return
        for lane in lanes:
            end = ends[lane.key.partition]
            if lane.state is LaneState.PAUSED and not end.error:
                self._lanes.ends.note_end_while_paused(lane, end.offset)

    async def _load(self, starting: Starting) -> None:
        """Read the stored progress of lanes that have no progress in memory."""
        wanted = [lane for lane in starting() if not lane.is_loaded]
        if not wanted:
            return
        log = self._context.progress(wanted[0].spec.destination)
        await log.catch_up([lane.key for lane in wanted])
        for lane in starting():
            if not lane.is_loaded:
                self._runner.guard(lane, lambda lane: self._restore(lane, log.stored(lane.key)))

    def _restore(self, lane: Lane, progress: LaneProgress | None) -> None:
        disputed = lane.ownership.disputed
        if disputed is not None and lane.ownership.has_owned and self._unsaved.is_foreign(lane, progress):
            raise disputed.lost()
        if progress is not None and not _is_outdated(lane, progress):
            progress.require_cluster(lane.spec.destination, self._lanes.sink(lane).cluster.cluster_id)
        self._unsaved.load(lane, progress)
        if progress is not None and progress.pause is not None:
            pause = Pause.from_json(progress.pause)
            self._runner.handle(lane, LifecycleEvent(EventKind.RESTORED, pause))

    async def _look_around(self, starting: Starting) -> None:
        """Refresh the metadata of the lanes' source and destination. Pauses lanes that cannot continue, and
        applies the loss policy to lanes that lost records."""
        lanes = starting()
        if not lanes:
            return
        first = lanes[0]
        source, sink = self._lanes.source(first), self._lanes.sink(first)
        await source.cluster.patiently(
            lambda: source.cluster.refresh({lane.key.partition.topic for lane in lanes})
        )
        await sink.cluster.patiently(
            lambda: sink.cluster.refresh({lane.spec.destination_topic for lane in lanes})
        )
        for lane in starting():
            self._runner.guard(lane, self._check_progress)
        cache = self._limits_of(first.spec.destination)
        for lane in lanes:
            if lane.pause is not None:
                forget_cap(lane)
                cache.forget(lane.spec.destination_topic)  # the operator may have changed its settings
        limits = await cache.look_up({lane.spec.destination_topic for lane in lanes})
        self._set_rules(starting(), limits)

    def _set_rules(self, lanes: Sequence[Lane], limits: Mapping[str, TopicLimits]) -> None:
        failed: dict[CopyPolicy, Exception] = {}
        for lane in lanes:
            policy = lane.spec.policy
            if policy not in failed:
                try:
                    self._rules.apply(lane, limits[lane.spec.destination_topic])
                except Exception as error:  # noqa: BLE001 - it affects the lanes of one policy
                    failed[policy] = error
            if policy in failed:
                self._runner.set_aside(lane, failed[policy])

    def _check_progress(self, lane: Lane) -> None:
        problem = self._problem(lane)
        if problem is not None:
            self._runner.pause(lane, problem)

    def _problem(self, lane: Lane) -> HeadraceError | None:
        target_id = self._lanes.sink(lane).cluster.topic_id(lane.spec.destination_topic)
        if self._unsaved.is_elsewhere(lane, target_id):
            elsewhere = "the stored progress is for another destination or precedes a restart"
            _log.warning("stored progress ignored", **lane.key.log_fields, reason=elsewhere)
            self._unsaved.begin_elsewhere(lane)
            self._runner.handle(lane, LifecycleEvent(EventKind.DISPLACED))
        goes_on = lane.spec.policy.on_loss is OnLoss.CONTINUE
        problem = self._source_logs.problem(lane)
        if isinstance(problem, TopicRecreated) and goes_on:
            _log.warning("copying the new topic", **lane.key.log_fields, reason=problem.message)
            self._source_logs.begin_life(lane, -1, problem.message, same_log=False)
            problem = None
        if problem is not None:
            return problem
        problem = self._produce_failures.target_problem(lane)
        if isinstance(problem, DataLossDetected) and goes_on:
            _log.warning("writing to the new topic", **lane.key.log_fields, reason=problem.message)
            self._begin_target(lane, problem.message)
            problem = None
        if problem is None and lane.progress.target_loss:
            problem = lane.halting_loss
            if problem is None:
                self._unsaved.accept_loss(lane)
        return problem

    def _begin_target(self, lane: Lane, sentence: str) -> None:
        """Start in a new destination log that contains no records of the lane.

        The log has no producer state, so it would accept any first sequence number, even from former owners.
        The lane therefore acquires its producer id again, and fences former owners in the new log.
        """
        self._lanes.identities.end(lane)
        self._unsaved.begin_target(lane, sentence)

    async def _find_positions(self, starting: Starting) -> None:
        """Find the start positions of lanes without a checkpoint or with a recreated source topic."""
        for lane in [lane for lane in starting() if begins_at_offset(lane)]:
            self._runner.guard(lane, self._begin_at_offset)
        await self._start_positions.take_over(starting)
        await self._start_positions.continue_latest(starting)
        lanes = [lane for lane in starting() if lane.read.position < 0]
        for (committed, moment), group in groupby(sorted(lanes, key=_question), key=_question):
            together = list(group)
            source = self._lanes.source(together[0]).cluster
            places = {lane.key.partition for lane in together}  # several datastreams may share a partition
            ask = partial(source.offsets, committed=committed, seconds=_OFFSETS_SECONDS)
            # End offsets first: if the timestamp lookup finds no record, those written in between are not
            # skipped.
            ends = await ask(dict.fromkeys(places, LATEST) if moment >= 0 else {})
            answers = dict(await ask(dict.fromkeys(places, moment)))
            answers |= {place: ends[place] for place in ends if _is_missing(answers[place])}
            still = set(starting())
            for lane in [lane for lane in together if lane in still]:
                self._runner.guard(lane, partial(self._begin, answers))

    def _begin_at_offset(self, lane: Lane) -> None:
        """Start at the offset in the datastream's definition. If the source log begins later, the missing
        records count as a loss."""
        assert lane.spec.start_offset is not None
        self._unsaved.begin(lane, lane.spec.start_offset)

    def _begin(self, answers: Answers, lane: Lane) -> None:
        place, cluster = lane.key.partition, self._lanes.source(lane).cluster
        answer = answers[place]
        if answer.error == Code.UNSUPPORTED_FOR_MESSAGE_FORMAT:
            raise Refused(
                f"{cluster.name} cannot search {place} by time, because its messages have no timestamps:"
                f" broker returned {name_of(answer.error)}",
                advice="start at earliest, latest or offsets",
            )
        if answer.error:
            doing = f"cannot look up the start offset of {place} of {cluster.name}"
            raise cluster.error(answer.error, doing, f"Describe on topic {place.topic}")
        self._unsaved.begin(lane, answer.offset)

    def _source_id(self, lane: Lane) -> bytes:
        return self._lanes.source(lane).cluster.topic_id(lane.key.partition.topic)

    def _go(self, seen: bytes, lane: Lane) -> None:
        """Start to copy from the lane's position.

        If the position belongs to a former topic with the same name, restart the lane. `seen`: id of the
        source topic before the position was looked up; another lane may have refreshed the metadata since.
        """
        self._unsaved.note_source_id(lane, seen)
        problem = self._source_logs.problem(lane) or self._produce_failures.target_problem(lane)
        if problem is not None:
            self._runner.restart(lane, str(problem))
            return
        source, sink = self._lanes.source(lane), self._lanes.sink(lane)
        # During an upgrade of the cluster, older brokers report no ids.
        source_id = self._source_id(lane) or lane.progress.source.topic_id
        target_id = sink.cluster.topic_id(lane.spec.destination_topic) or lane.progress.target_id
        identity = SourceIdentity(source_id, lane.progress.source.leader_epoch, source.cluster.cluster_id)
        self._unsaved.note_logs(lane, identity, target_id, sink.cluster.cluster_id)
        forget_other_topics(lane)
        source.cluster.pin(source.cluster.cluster_id)
        sink.cluster.pin(lane.progress.target_cluster)
        self._runner.handle(lane, LifecycleEvent(EventKind.POSITIONED))
        if not lane.observed.is_announced:
            lane.observed.is_announced = True
            self._lanes.report(LaneStarted(lane.key, lane.read.position))
        sink.attach(lane)
        self._runner.read_on(lane)


def _is_outdated(lane: Lane, progress: LaneProgress) -> bool:
    """Return whether the datastream was restarted after this progress was stored."""
    return progress.restart_ms < lane.spec.restart_ms


def _route_of(spec: LaneSpec) -> tuple[ClusterRef, ClusterRef]:
    return spec.source, spec.destination


def _route(lane: Lane) -> tuple[ClusterRef, ClusterRef]:
    return _route_of(lane.spec)


def _leaders(cluster: Cluster, places: Iterable[TopicPartition]) -> set[int]:
    """Return the brokers that lead any of the partitions."""
    return {leader[0] for place in places if (leader := cluster.leader(place)) is not None}


def _question(lane: Lane) -> tuple[bool, int]:
    """Return the isolation level and timestamp for the lane's ListOffsets request."""
    return lane.spec.policy.isolation is Isolation.READ_COMMITTED, _begins_at(lane)


def _begins_at(lane: Lane) -> int:
    """Return the timestamp for the lane's ListOffsets request. A recreated topic is copied from its start."""
    spec = lane.spec
    if lane.progress.life:
        return EARLIEST
    if spec.start_ms is not None:
        return spec.start_ms
    if spec.start is StartPosition.EARLIEST_LOCAL:
        return EARLIEST_LOCAL
    return LATEST if spec.start.is_latest else EARLIEST


def _is_missing(answer: OffsetAnswer) -> bool:
    """Return whether the response means that no record exists at or after the requested time."""
    return not answer.error and answer.offset < 0
