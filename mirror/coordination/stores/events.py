"""Log of the latest changes and their reasons in the coordination store, for installations without Pinot."""

from __future__ import annotations

import itertools
import re
import secrets
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, fields, replace
from typing import Any, Final

from mirror.coordination.stores import node_codec, znodes
from mirror.coordination.stores.problems import Problem
from mirror.coordination.stores.record_folder import NodeGroups, surplus
from mirror.coordination.stores.requests import Request, cause_of
from mirror.errors import CorruptData, InvalidRequest, NotFound, VersionConflict
from mirror.loggers import get_logger
from mirror.model import bounds
from mirror.model.identifiers import NO_EPOCH, DatastreamName, Epoch, GroupName, InstanceName
from mirror.model.metrics import NO_EVENTS, ChangeKind, EventHistory, PlacementEvent, WorkerLoss
from mirror.model.nodes import NextNode, Node, NodeChange, NodeDeletion
from mirror.model.plan import GroupPlan, Move, Plan
from mirror.model.reasons import damage_of, legible
from mirror.model.topics import TopicPartition
from mirror.ports import NodeStore, Watch
from mirror.wording import counted

_log = get_logger(__name__)

KEPT: Final = 200
"""Maximum number of stored publications of events that concern several groups or no group.

A plan and its moves form one publication.
"""

KEPT_OF_GROUP: Final = 50
"""Maximum number of stored publications of events per group or per datastream of another name."""

MOST_KEPT: Final = 1_000
"""Maximum number of stored publications of events in total."""

_TRIMMED_EVERY: Final = 20
"""Number of publications after which an instance trims the log."""

MOVES_SHOWN: Final = 500
"""Maximum number of moves of a plan that are reported individually.

The event of the plan contains the total number of moves.
"""

_READ_AT_ONCE: Final = 100
"""Number of publications per read request. Single reads would take minutes on a slow store."""
_MOST_READ: Final = 100_000
"""Maximum number of events in one publication."""
_NODE: Final = re.compile(r"e-[0-9]{10}")


_FIRST: Final = "first_publication"
_LOWEST_FIRST: Final = 10**9
_HIGHEST_FIRST: Final = 7 * 10**9
"""Highest number of the first publication. With the largest number of a sequential node, 2**31 - 1, the sum
has ten digits."""


def draw_first() -> int:
    """Return a random number for the first publication of a log."""
    return _LOWEST_FIRST + secrets.randbelow(_HIGHEST_FIRST - _LOWEST_FIRST)


class EventLog:
    """Bounded log of events in the coordination store. An entry contains the events of one publication."""

    def __init__(self, nodes: NodeStore, draw: Callable[[], int] = draw_first) -> None:
        """`draw`: returns the number of the first publication of a new log."""
        self._nodes = nodes
        self._draw = draw
        self._added = itertools.count()
        self._groups = NodeGroups(
            nodes, znodes.EVENTS, lambda path, data: _group_of(_read_publication(path, data))
        )

    def append(self, events: tuple[PlacementEvent, ...]) -> None:
        """Store events as one publication, and drop old publications.

        The publication is shortened to the size limit of a node.
        """
        entry = self.entry(events)
        path = self._nodes.create(entry.path, entry.data, sequential=True)
        self._groups.note(path.rpartition("/")[2], _group_of(events))
        self.trim()

    def entry(self, events: tuple[PlacementEvent, ...]) -> NextNode:
        """Return the node that stores events as one publication, for the transaction of the reported change.

        The publication is shortened to the size limit of a node.
        """
        chunks = node_codec.encode_chunks({"events": [asdict(event) for event in events]})
        while len(chunks) > 1:
            events = events[: len(events) // 2]
            chunks = node_codec.encode_chunks({"events": [asdict(event) for event in events]})
        return NextNode(f"{znodes.EVENTS}/e-", chunks[0])

    def change_each(
        self,
        wanted: Mapping[DatastreamName, Sequence[NodeChange]],
        on_applied: Callable[[Sequence[DatastreamName]], None],
        apply_alone: Callable[[DatastreamName], None],
    ) -> None:
        """Apply changes to many nodes as `znodes.change_each` does. They may include entries of this log."""
        znodes.change_each(self._nodes, wanted, on_applied, apply_alone)

    def trim_now_and_then(self) -> None:
        """Trim the log on every `_TRIMMED_EVERY`-th call, because listing the log costs more than adding an
        entry. Called after an entry of a frequent change was stored."""
        if next(self._added) % _TRIMMED_EVERY == 0:
            self._drop(lambda _: None)  # if another instance drops them concurrently, the next call retries

    def trim(self) -> None:
        """Drop old publications of events, separately for each group."""
        self._drop(self._nodes.delete_tree)

    def _drop(self, drop_alone: Callable[[str], None]) -> None:
        publications = self._publications()
        if len(publications) <= KEPT_OF_GROUP:
            return
        old = surplus(self._groups.of(publications), _most_of, MOST_KEPT)
        paths = [f"{znodes.EVENTS}/{node}" for node in old]
        deletions = {path: (NodeDeletion(path),) for path in paths}
        znodes.change_each(self._nodes, deletions, lambda _: None, drop_alone)

    def newest(self, limit: int) -> tuple[PlacementEvent, ...]:
        """Return at most `limit` events, newest publication first.

        A damaged publication yields one event that reports the damage.
        """
        events: list[PlacementEvent] = []
        paths = [f"{znodes.EVENTS}/{node}" for node in reversed(self._publications())]
        while paths and len(events) < limit:
            some, paths = paths[:_READ_AT_ONCE], paths[_READ_AT_ONCE:]
            for path, node in self._nodes.read_present(some).items():
                events.extend(_read_publication(path, node.data))
        return tuple(events[:limit])

    def history(self, former: EventHistory, watch: Watch) -> EventHistory:
        """Return all publications of events.

        Only publications that are missing in `former` are read. `watch`: fires when a publication is added or
        dropped.
        """
        first, names = self._first_number(), self._publications(watch)
        if first is None and names:
            first = self._first_number()
        if first is None:
            return NO_EVENTS
        known = former.publications if former.first == first else {}
        nodes = {first + int(node[2:]): f"{znodes.EVENTS}/{node}" for node in names}
        unknown = [path for number, path in nodes.items() if number not in known]
        found: dict[str, Node] = {}
        for start in range(0, len(unknown), _READ_AT_ONCE):
            found.update(self._nodes.read_present(unknown[start : start + _READ_AT_ONCE]))
        read = {path: tuple(_read_publication(path, node.data)) for path, node in found.items()}
        present = {
            number: known[number] if number in known else read[path]
            for number, path in nodes.items()
            if number in known or path in read
        }
        return EventHistory(first, present)

    def _first_number(self) -> int | None:
        """Return the number of the log's first publication; None if there is no log.

        The first reader of a new log stores it. The numbers of nodes alone do not identify a publication,
        because they start at 0 again after the loss of the store.
        """
        with suppress(NotFound):
            node = self._nodes.read(znodes.EVENTS)
            if (stored := _read_first(node.data)) is not None:
                return stored
            drawn = self._draw()
            try:
                self._nodes.write(znodes.EVENTS, node_codec.encode({_FIRST: drawn}), node.version)
            except VersionConflict:  # another instance has stored one
                return _read_first(self._nodes.read(znodes.EVENTS).data)
            return drawn
        return None

    def _publications(self, watch: Watch | None = None) -> list[str]:
        """Return the node names of all publications, oldest first; other nodes are ignored."""
        return [node for node in self._nodes.children(znodes.EVENTS, watch) if _NODE.fullmatch(node)]


def _read_first(data: bytes) -> int | None:
    """Return the stored number of the first publication; None if it is missing or damaged."""
    if not data:
        return None
    try:
        document = node_codec.decode(data, znodes.EVENTS)
        return bounds.integer(_FIRST, bounds.field(document, _FIRST), 0, _HIGHEST_FIRST)
    except (CorruptData, InvalidRequest) as error:
        _log.error("event log gets new numbers", reason=damage_of(error))
        return None


def _group_of(events: Iterable[PlacementEvent]) -> str:
    """Return the group or datastream that all events concern, or an empty string. The limit per group applies
    to this name."""
    names = {event.datastream for event in events if event.datastream}
    return names.pop() if len(names) == 1 else ""


def _most_of(group: str) -> int:
    return KEPT_OF_GROUP if group else KEPT


def _read_publication(path: str, data: bytes) -> list[PlacementEvent]:
    try:
        stored = bounds.field(node_codec.decode_chunks([data], path), "events")
        entries = bounds.sequence("events", stored, _MOST_READ)
        return [_read_event(bounds.mapping("an event", entry)) for entry in entries]
    except (CorruptData, InvalidRequest, LookupError, TypeError, ValueError) as error:
        no_instance, nothing = InstanceName(""), f"cannot read node {path}: {damage_of(error)}"
        return [
            _sentence_event(
                0, f"damaged/{path.rpartition('/')[2]}", ChangeKind.PROBLEM, no_instance, "", nothing
            )
        ]


def _read_event(document: Mapping[str, Any]) -> PlacementEvent:
    """Parse a stored event. Unknown fields, which a newer version may have written, are ignored."""
    event = PlacementEvent(**{field.name: document[field.name] for field in fields(PlacementEvent)})
    return replace(event, kind=ChangeKind(event.kind))


def plan_events(
    plan: Plan,
    moves: tuple[Move, ...],
    group_plans: Mapping[GroupName, GroupPlan],
    leader: InstanceName,
    loads: Mapping[tuple[GroupName, TopicPartition], float],
    reasons: Mapping[tuple[GroupName, TopicPartition], str],
) -> tuple[PlacementEvent, ...]:
    """Return the events that report a new plan.

    There is one event for the plan, one for each lost instance, one for each changed group with the reasons
    for its tasks, and one for each of the first `MOVES_SHOWN` moves. `loads`: bytes per second of moved
    partitions, if known. `reasons`: reason of each move.
    """
    changed = {move.group for move in moves}
    return (
        _plan_event(plan, leader, "", plan.reason),
        *_loss_events(plan, moves, leader),
        *(
            _plan_event(plan, leader, group, "; ".join(group_plan.reasons))
            for group, group_plan in sorted(group_plans.items())
            if group in changed and group_plan.reasons
        ),
        *(
            _move_event(plan, leader, move, reasons[place], loads.get(place))
            for move in moves[:MOVES_SHOWN]
            for place in [(move.group, move.partition)]
        ),
    )


def _loss_events(plan: Plan, moves: tuple[Move, ...], leader: InstanceName) -> list[PlacementEvent]:
    """Return an event for each instance whose loss this plan records first."""
    found = []
    for name, departure in sorted(plan.departed.items()):
        if departure.is_lost and departure.left_ms == plan.created_ms:
            count = sum(move.from_instance == name for move in moves)
            sentence = (
                f"{legible(name)} lost its session; {counted(count, 'partition moves', 'partitions move')}"
            )
            key = f"{plan.epoch}/lost/{legible(name)}"
            event = _event(plan.created_ms, plan.epoch, key, ChangeKind.INSTANCE, leader, "", sentence)
            found.append(replace(event, from_instance=legible(name)))
    return found


def problem_event(
    leader: InstanceName, name: DatastreamName, problem: Problem, now_ms: int, *, is_over: bool = False
) -> PlacementEvent:
    """Return the event for a problem or warning of a datastream that starts, ends, or changes its reason.

    `is_over`: the problem has ended.
    """
    moment = "/over" if is_over else f"/{now_ms}" if now_ms != problem.since_ms else ""
    return _sentence_event(
        now_ms,
        f"problem/{legible(name)}/{problem.since_ms}{moment}",
        ChangeKind.PROBLEM,
        leader,
        name,
        _problem_sentence(problem, is_over),
    )


def _problem_sentence(problem: Problem, is_over: bool) -> str:
    if not problem.sets_aside:
        return f"no longer applies: {problem.reason}" if is_over else problem.reason
    return f"resolved: {problem.reason}" if is_over else f"problem: {problem.reason}"


def loads_event(
    leader: InstanceName, source: str, since_ms: int, sentence: str, now_ms: int, *, is_over: bool = False
) -> PlacementEvent:
    """Return the event for loads of a source cluster that are stale or unavailable.

    `is_over`: the loads are available again.
    """
    key = f"loads/{legible(source)}/{since_ms}{'/over' if is_over else ''}"
    return _sentence_event(now_ms, key, ChangeKind.LOADS, leader, "", sentence)


def recovery_event(leader: InstanceName, plan: Plan, reason: str, now_ms: int) -> PlacementEvent:
    """Return the event that reports an unreadable plan.

    `plan`: plan from which the leader continues.
    """
    sentence = legible(
        f"{reason}; the leader continues from epoch {plan.epoch} with {counted(len(plan.tasks), 'task')}"
    )
    key = f"recovery/{plan.epoch}"
    return _event(now_ms, plan.epoch, key, ChangeKind.PROBLEM, leader, "", sentence)


def request_event(leader: InstanceName, request: Request, reason: str, now_ms: int) -> PlacementEvent:
    """Return the event for a request that failed permanently."""
    sentence = f"{cause_of(request)}; failed: {reason}"
    key = f"request/{request.identity}"
    return _sentence_event(now_ms, key, ChangeKind.REQUEST, leader, request.group, sentence)


def command_event(name: DatastreamName, sentence: str, now_ms: int) -> PlacementEvent:
    """Return the event for a change of a datastream over REST. The event names no instance."""
    key = f"command/{legible(name)}/{now_ms}/{zlib.crc32(sentence.encode(errors='replace')):08x}"
    return _sentence_event(now_ms, key, ChangeKind.COMMAND, InstanceName(""), name, sentence)


def worker_event(instance: InstanceName, loss: WorkerLoss) -> PlacementEvent:
    """Return the event for a worker process that an instance has lost."""
    lanes = counted(loss.lanes, "partition")
    sentence = f"{legible(instance)} lost worker process {loss.worker} ({loss.how}); {lanes} stopped"
    key = f"worker/{legible(instance)}/{loss.worker}/{loss.time_ms}"
    event = _sentence_event(loss.time_ms, key, ChangeKind.WORKER, instance, "", sentence)
    return replace(event, from_instance=legible(instance))


def _sentence_event(
    now_ms: int, key: str, kind: ChangeKind, leader: InstanceName, datastream: str, sentence: str
) -> PlacementEvent:
    """Return an event that contains only a sentence, without plan and partition."""
    return _event(now_ms, NO_EPOCH, key, kind, leader, legible(datastream), legible(sentence))


def _plan_event(plan: Plan, leader: InstanceName, group: str, sentence: str) -> PlacementEvent:
    """Return an event for a plan, or for the plan's changes to one group."""
    kind = ChangeKind.DATASTREAM if group else ChangeKind.PLAN
    key = f"{plan.epoch}/{group}" if group else f"{plan.epoch}"
    return _event(plan.created_ms, plan.epoch, key, kind, leader, group, sentence)


def _event(
    time_ms: int,
    epoch: Epoch,
    key: str,
    kind: ChangeKind,
    leader: InstanceName,
    datastream: str,
    sentence: str,
) -> PlacementEvent:
    """Return an event that does not concern a single partition."""
    return PlacementEvent(
        time_ms=time_ms,
        event_key=key,
        kind=kind,
        plan_epoch=epoch,
        instance=leader,
        datastream=datastream,
        topic="",
        kafka_partition=-1,
        from_task="",
        to_task="",
        from_instance="",
        to_instance="",
        bytes_per_second=None,
        sentence=sentence,
    )


def _move_event(
    plan: Plan, leader: InstanceName, move: Move, reason: str, bytes_per_second: float | None
) -> PlacementEvent:
    return PlacementEvent(
        time_ms=plan.created_ms,
        event_key=f"{plan.epoch}/{move.group}/{move.partition}",
        kind=ChangeKind.MOVE,
        plan_epoch=plan.epoch,
        instance=leader,
        datastream=move.group,
        topic=move.partition.topic,
        kafka_partition=move.partition.partition,
        from_task=move.from_task or "",
        to_task=move.to_task or "",
        from_instance=move.from_instance or "",
        to_instance=move.to_instance or "",
        bytes_per_second=bytes_per_second,
        sentence=reason,
    )
