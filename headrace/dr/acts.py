"""Performs the steps of a switch-over on the clusters and the service."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from headrace.clusters.audits import audit_job
from headrace.console.resources import WaitCondition
from headrace.dr.datastreams import PairDatastreams, body_of, opposite, require_direction
from headrace.dr.groups import GroupMove
from headrace.dr.loss import measured_loss
from headrace.dr.tail import TailReader, copy_tail, forget_replays, marked, replay_sink
from mirror.client.cluster import Cluster
from mirror.errors import NothingStored, Refused, TimedOut
from mirror.jobs.dr.coverage import PartitionSpan, differing_topics, gaps_of, left_out, unaccounted, uncopied
from mirror.jobs.dr.fence import allow, denials_at, deny, refuse_own, require_own_rights
from mirror.jobs.dr.fork import Fork, Loss, document_of, fork_of, merged, offsets_of
from mirror.jobs.dr.operation import Denial, Kind, PairState, Step, Switchover, has_reached, step_after
from mirror.jobs.dr.settings import PairSettings
from mirror.jobs.dr.stillness import Ends, log_ends, stray_batch, watch_ends
from mirror.jobs.stored_lanes import stored_lanes
from mirror.lane.progress import LaneProgress
from mirror.lane.rules import RoutingRules
from mirror.model.expressions import expression_of
from mirror.model.identifiers import ClusterRef
from mirror.model.topics import TopicPartition
from mirror.protocol.control.offsets import EARLIEST, LATEST
from mirror.replication.context import EngineContext
from mirror.wording import counted, first_few

_SETTLE_SECONDS: Final = 2.0
Definitions = Mapping[str, Mapping[str, Any]]
"""Definitions of datastreams as returned by the REST API, by name."""


@dataclass(frozen=True)
class SwitchoverActs:
    """Performs the steps of a switch-over, failover or failback. Implements `mirror.jobs.dr.driver.Acts`.

    `own_topics`: internal topics of Headrace, which are never mirrored.
    """

    settings: PairSettings
    bench: EngineContext
    datastreams: PairDatastreams
    own_topics: Collection[str]

    # Intents

    def intend(self, state: PairState, operation: Switchover) -> Switchover:
        """Complete the operation with the parameters of its current step, to be stored before `perform`
        runs."""
        match operation.step:
            case Step.LAG_OK:
                return self._with_definitions(state, operation)
            case Step.FENCED:
                return self._with_fence(operation)
            case Step.LOSS_ACCEPTED:
                defined = self._with_definitions(state, operation)
                return defined.with_(loss=self.loss(defined))
            case Step.FORKED if operation.fork is None:
                return self._with_fork(operation)
            case Step.SETTLED:
                return self._with_settled_fork(operation)
            case Step.REVERSED if not operation.starts and operation.kind is not Kind.FAILBACK:
                here = self.bench.run(self._ends(operation.definitions, operation.origin))
                self.bench.run(self._refuse_writes(operation, here))
                ends = self.bench.run(self._ends(operation.definitions, operation.target))
                return operation.with_(starts=document_of(ends))
        return operation

    def _with_definitions(self, state: PairState, operation: Switchover) -> Switchover:
        found = self.datastreams.definitions(state.datastreams.values())
        for definition in found.values():
            require_direction(definition, operation.origin, operation.target)
        return operation.with_(definitions=found)

    def _with_fence(self, operation: Switchover) -> Switchover:
        """Add the ACLs to the operation that will deny writes at the origin, except existing ACLs."""
        principals = self.settings.principals
        if not principals:
            return operation
        origin = self._cluster(operation.origin)
        own = {origin.principal, self._cluster(operation.target).principal}
        refuse_own(principals, own)
        topics = self.bench.run(self.topics(operation.definitions, operation.origin))
        present = self.bench.run(denials_at(origin))
        wanted = [Denial(topic=topic, principal=name) for topic in sorted(topics) for name in principals]
        new = [denial for denial in wanted if denial not in present]
        return operation.with_(fence=tuple(dict.fromkeys([*operation.fence, *new])))

    # Acts

    def perform(self, state: PairState, operation: Switchover) -> Switchover:
        """Perform the current step of the operation."""
        acts: Mapping[Step, Callable[[PairState, Switchover], Switchover]] = {
            Step.LAG_OK: self._check_lag,
            Step.FENCED: self._fence,
            Step.FENCE_VERIFIED: self._verify,
            Step.DRAINED: self._drain,
            Step.AUDITED: self._account,
            Step.GROUPS_MOVED: self._move_groups,
            Step.STOPPED: self._stop,
            Step.REVERSED: self._reverse,
            Step.OPEN: self._open,
            Step.LOSS_ACCEPTED: self._accept,
            Step.FORKED: self._accept,
            Step.SETTLED: lambda _state, operation: operation,
            Step.REPLAYED: self._replay,
            Step.TAIL_DECIDED: self._require_decision,
        }
        return acts[operation.step](state, operation)

    def undo(self, state: PairState, operation: Switchover, step: Step) -> None:
        """Undo a step of the operation, even if it was performed only in part."""
        match step:
            case Step.FENCED:
                self.bench.run(allow(self._cluster(operation.origin), operation.fence))
            case Step.STOPPED:
                for name in state.datastreams.values():
                    self.datastreams.resume(name)
            case Step.REVERSED:
                self.datastreams.delete(state.next_names.values())
                former = (operation.definitions[name] for name in state.datastreams.values())
                self.datastreams.create(map(body_of, former))  # each resumes from its checkpoints

    def _check_lag(self, state: PairState, operation: Switchover) -> Switchover:
        for name in state.datastreams.values():
            self.datastreams.require(name, WaitCondition.RUNNING)
            self.datastreams.require_lag_below(name, self.settings.rpo_seconds)
        self.bench.run(self._require_same_topics(operation))
        return operation

    async def _require_same_topics(self, operation: Switchover) -> None:
        """Raise TimedOut unless origin and target have the same partitions."""
        origin, target = operation.origin, operation.target
        here, there = [await self.topics(operation.definitions, name) for name in (origin, target)]
        if different := differing_topics(origin, here, target, there):
            raise TimedOut(first_few(different, separator="; "))

    def _fence(self, _state: PairState, operation: Switchover) -> Switchover:
        if operation.fence:
            origin = self._cluster(operation.origin)
            self.bench.run(deny(origin, operation.fence))
            topics = sorted({denial.topic for denial in operation.fence})
            self.bench.run(require_own_rights(origin, topics))
        return operation

    def _verify(self, _state: PairState, operation: Switchover) -> Switchover:
        return self.bench.run(self._verified(operation))

    async def _verified(self, operation: Switchover) -> Switchover:
        origin = self._cluster(operation.origin)
        places = await self._places(operation.definitions, operation.origin)
        ends = await watch_ends(origin, places, self.settings.still_seconds, _SETTLE_SECONDS)
        if not has_reached(operation, Step.STOPPED):
            return operation.with_(ends=document_of(ends))
        await self._refuse_writes(operation, ends)
        return operation

    async def _refuse_writes(self, operation: Switchover, ends: Ends) -> None:
        """Raise Refused if clients have written to the origin since the check that they had stopped."""
        stray = await stray_batch(self._cluster(operation.origin), offsets_of(operation.ends), ends)
        if stray is not None:
            raise Refused(
                f"{stray.sentence} of {operation.origin} after the check that producers had stopped",
                advice="stop the producer, or add its principal to dr.NAME.principals",
            )

    def _drain(self, _state: PairState, operation: Switchover) -> Switchover:
        missing = self.bench.run(self._missing(operation))
        if missing:
            named = first_few([str(place) for place in missing])
            raise TimedOut(f"records of {counted(len(missing), 'partition')} are not copied yet: {named}")
        return operation

    async def _missing(self, operation: Switchover) -> Sequence[object]:
        origin, ends = self._cluster(operation.origin), offsets_of(operation.ends)
        firsts = await origin.offsets(dict.fromkeys(ends, EARLIEST))
        spans = {
            place: PartitionSpan(0 if firsts[place].error else firsts[place].offset, end)
            for place, end in ends.items()
        }
        found = uncopied(spans, await self._lanes(operation))
        if not found:
            return found
        stable = await origin.offsets(dict.fromkeys(ends, LATEST), committed=True)
        worst = found[0].place
        if stable[worst].offset < ends[worst] and not stable[worst].error:
            return [f"{found[0]}: a transaction is open at offset {stable[worst].offset}", *found[1:]]
        return found

    def _account(self, state: PairState, operation: Switchover) -> Switchover:
        lanes = self.bench.run(self._lanes(operation))
        if wrong := unaccounted(lanes):
            named = first_few([str(place) for place in wrong])
            raise Refused(f"offsets of unknown outcome in {named}", advice="check them with headrace audit")
        notes = [
            f"{counted(count, 'record')} of {operation.origin} not at {operation.target}: {kind}"
            for kind, count in left_out(lanes).items()
        ]
        audits = [topic for name in state.datastreams.values() for topic in self.datastreams.audits(name)]
        return operation.with_(
            audits=tuple(audits), gaps=gaps_of(lanes), notes=tuple(dict.fromkeys([*operation.notes, *notes]))
        )

    def _move_groups(self, state: PairState, operation: Switchover) -> Switchover:
        if not self.settings.groups:
            return operation
        mover = GroupMove(self.bench, operation, state.previous, state.datastreams)
        is_failover = operation.kind is Kind.FAILOVER
        move = mover.move_stored if is_failover else mover.move
        groups, notes = self.bench.run(move(self.settings.groups))
        return operation.with_(groups=tuple(groups), notes=tuple(dict.fromkeys([*operation.notes, *notes])))

    def _stop(self, state: PairState, operation: Switchover) -> Switchover:
        if has_reached(operation, Step.REVERSED):
            return operation  # the datastreams may be deleted already
        self.datastreams.stop(state.datastreams.values())
        return operation

    def _reverse(self, state: PairState, operation: Switchover) -> Switchover:
        # both directions at once would copy records in a loop
        self.datastreams.delete(state.datastreams.values())
        bodies = []
        for configured, name in state.datastreams.items():
            definition = operation.definitions[name]
            topics = audit_job(definition).selection
            starts = {topic: found for topic, found in operation.starts.items() if topics.matches(topic)}
            bodies.append(opposite(definition, state.next_names[configured], starts))
        self.datastreams.create(bodies)
        if operation.kind is Kind.FAILBACK:
            self.bench.run(forget_replays(self.tail(fork_in(operation)), operation.target))
        return operation

    def _open(self, state: PairState, operation: Switchover) -> Switchover:
        if state.fences:
            self.bench.run(allow(self._cluster(operation.target), state.fences))
        if operation.kind is Kind.FAILOVER:  # resumed datastreams would copy the tail when the source returns
            self.datastreams.delete(state.datastreams.values())
        return operation

    # Failover

    def loss(self, operation: Switchover) -> Loss:
        """Return the records that a failover now would lose. Raises Unreachable."""
        reported: dict[TopicPartition, int | None] = {}
        for name in operation.definitions:
            for partition in self.datastreams.lag(name)["partitions"]:
                reported[TopicPartition(partition["topic"], partition["partition"])] = partition["source_end"]
        return self.bench.run(self._loss(operation, reported))

    async def _loss(self, operation: Switchover, reported: Mapping[TopicPartition, int | None]) -> Loss:
        target, lanes = self._cluster(operation.target), await self._lanes(operation)
        places = await self._places(operation.definitions, operation.target)
        source_ends = {place: end for place, end in reported.items() if end is not None}
        return await measured_loss(target, reported, lanes, source_ends, await log_ends(target, places))

    def _accept(self, _state: PairState, operation: Switchover) -> Switchover:
        """Raise Refused if the loss of a failover exceeds the limit that the operator has accepted."""
        loss = operation.loss or Loss()
        if excess := operation.limit.excess(loss):
            raise Refused(
                f"{excess}: the loss is {loss.figure}", advice=f"accept it with --accept-loss {loss.figure}"
            )
        return operation

    def _with_fork(self, operation: Switchover) -> Switchover:
        """Add the fork to the operation: the offsets at which the clusters began to differ.

        The loss is measured again, because it may have changed before the datastreams stopped.
        """
        fork = self.bench.run(self._fork(operation))
        loss = self.loss(operation).with_seconds_of(operation.loss or Loss())
        return operation.with_(fork=fork.model_copy(update={"loss": loss}), loss=loss)

    async def _fork(self, operation: Switchover) -> Fork:
        lanes, ends = await self._lanes(operation), await self._ends(operation.definitions, operation.target)
        fork = fork_of(operation.identity, operation.origin, self.bench.clock.now_ms(), lanes, ends)
        given = {
            topic: {int(number): int(offset) for number, offset in offsets.items()}
            for definition in operation.definitions.values()
            for topic, offsets in definition["start_positions"].items()
        }
        return fork.model_copy(
            update={
                "copied": merged(given, fork.copied),
                "ends": merged(document_of(ends), fork.ends),
                "definitions": operation.definitions,
            }
        )

    # Tail and failback

    def tail(self, fork: Fork) -> TailReader:
        """Return a reader for the records that were not copied before their cluster was lost."""
        jobs = [audit_job(definition) for definition in fork.definitions.values()]
        return TailReader(self.bench, fork, all(job.committed for job in jobs))

    def ends_at(self, cluster: str, definitions: Definitions) -> Ends:
        """Return the end offsets on a cluster of all topics that the datastreams select. Raises
        Unreachable."""
        return self.bench.run(self._ends(definitions, cluster))

    def _with_settled_fork(self, operation: Switchover) -> Switchover:
        """Replace the fork by its exact offsets, found by comparing the clusters.

        For a decision about the tail, also adds its offsets and its number of records.
        """
        reader = self.tail(fork_in(operation))
        fork = self.bench.run(reader.settle())
        settled = operation.with_(fork=fork, starts=fork.ends)
        if operation.kind is Kind.FAILBACK:
            return settled
        expression = expression_of("topics", operation.selection)
        chosen = {topic: ends for topic, ends in operation.ends.items() if expression.matches(topic)}
        found = self.bench.run(self.tail(fork).list(offsets_of(chosen)))
        return settled.with_(ends=chosen, records=sum(tail.records for tail in found))

    def _replay(self, _state: PairState, operation: Switchover) -> Switchover:
        reader = self.tail(fork_in(operation))
        sink = replay_sink(reader, operation.target)
        rules = RoutingRules(transforms=(marked(operation.origin),), transform_names=("replay",))
        ranges = self.bench.run(reader.ranges(offsets_of(operation.ends)))
        try:
            self.bench.run(copy_tail(reader, ranges, sink, rules))
        finally:
            sink.close()
        return operation

    def _require_decision(self, _state: PairState, operation: Switchover) -> Switchover:
        """Raise Refused unless every uncopied record of the lost cluster was replayed or skipped."""
        found = self.bench.run(self.tail(fork_in(operation)).list(offsets_of(operation.ends)))
        if found:
            named = first_few([f"{stray.topic}-{stray.partition} ({stray.records})" for stray in found])
            raise Refused(
                f"records of {operation.origin} are neither replayed nor skipped: {named}",
                advice="see headrace dr tail list; then run headrace dr tail replay or skip",
            )
        return operation

    # Clusters

    def _cluster(self, name: str) -> Cluster:
        return self.bench.cluster(ClusterRef(name))

    async def topics(self, definitions: Definitions, cluster: str) -> dict[str, int]:
        """Return the partition count of each topic that the datastreams select on a cluster."""
        jobs = [audit_job(definition) for definition in definitions.values()]
        found = await self._cluster(cluster).all_topics()
        return {
            name: len(topic.leaders)
            for name, topic in found.items()
            if name not in self.own_topics and any(job.selection.matches(name) for job in jobs)
        }

    async def _places(self, definitions: Definitions, cluster: str) -> list[TopicPartition]:
        counts = await self.topics(definitions, cluster)
        return [TopicPartition(name, number) for name, count in counts.items() for number in range(count)]

    async def _ends(self, definitions: Definitions, cluster: str) -> Ends:
        return await log_ends(self._cluster(cluster), await self._places(definitions, cluster))

    async def _lanes(self, operation: Switchover) -> dict[TopicPartition, LaneProgress]:
        """Map each partition of the pair's datastreams to its stored progress. Raises Unreachable."""
        found: dict[TopicPartition, LaneProgress] = {}
        for definition in operation.definitions.values():
            job = audit_job(definition)
            with suppress(NothingStored):
                lanes = await stored_lanes(self.bench, ClusterRef(operation.target), job.state)
                found |= {key.partition: lane for key, lane in lanes.items()}
        return found


def fork_in(operation: Switchover) -> Fork:
    """Return the fork of an operation, which must have one."""
    assert operation.fork is not None, "begin() requires a fork"
    return operation.fork


def plan_of(state: PairState, operation: Switchover, settings: PairSettings) -> list[dict[str, Any]]:
    """Return the current step and the following steps of an operation, each with a description."""
    names, origin = ", ".join(state.datastreams.values()), operation.origin
    is_failover = operation.kind is Kind.FAILOVER
    texts = {
        Step.LAG_OK: f"check that {names} run, and are less than {settings.rpo_seconds:g} s behind",
        Step.FENCED: f"deny Write on {origin} to {', '.join(settings.principals) or 'nobody'}",
        Step.FENCE_VERIFIED: f"wait for {settings.still_seconds:g} s without new records on {origin}",
        Step.DRAINED: f"wait until {operation.target} has every record",
        Step.AUDITED: "check that every offset is accounted for",
        Step.GROUPS_MOVED: f"commit the positions of groups {settings.groups or '(none)'}",
        Step.STOPPED: f"stop {names}",
        Step.REVERSED: f"delete {names}, and create {', '.join(state.next_names.values())} from the "
        + ("fork" if operation.kind is Kind.FAILBACK else f"ends of {operation.target}"),
        Step.OPEN: f"allow Write on {operation.target}" + (f", and delete {names}" if is_failover else ""),
        Step.LOSS_ACCEPTED: "check that the loss is within the limit",
        Step.FORKED: f"store the end offsets of the copied records on {operation.target}",
        Step.SETTLED: "find copied records after the checkpoints",
        Step.REPLAYED: f"write the tail to {operation.target}",
        Step.TAIL_DECIDED: f"check that all records of the tail of {origin} are replayed or skipped",
    }
    found: list[dict[str, Any]] = []
    step: Step | None = operation.step
    while step is not None:
        found.append({"step": step.value, "action": texts[step]})
        operation = operation.with_(step=step)
        step = step_after(operation)
    return found
