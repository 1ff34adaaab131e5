"""What changed and why: the newest events in ZooKeeper, for people without Pinot."""

from __future__ import annotations

import itertools
import re
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from typing import Any, Final

from mirror.coordination.stores import znodes
from mirror.coordination.stores.problems import Problem, legible
from mirror.coordination.stores.requests import Request, cause_of
from mirror.coordination.stores.retention.node_groups import NodeGroups
from mirror.coordination.stores.retention.shares import surplus
from mirror.errors import CorruptData, InvalidRequest, damage_of
from mirror.model import bounds
from mirror.model.identifiers import NO_EPOCH, DatastreamName, Epoch, GroupName, InstanceName
from mirror.model.metrics import ChangeKind, PlacementEvent
from mirror.model.nodes import NextNode, Node, NodeChange, NodeDeletion
from mirror.model.plan import GroupPlan, Move, Plan
from mirror.model.topics import TopicPartition
from mirror.ports import NodeStore, Watch
from mirror.wording import counted

KEPT: Final = 200
"""Publications (a plan with its moves is one) that are kept of what concerns several groups, or none."""

KEPT_OF_GROUP: Final = 50
"""Publications that are kept of each group, or of a datastream of another name."""

MOST_KEPT: Final = 1_000
"""Publications that are kept of all groups."""

_TRIMMED_EVERY: Final = 20
"""Publications of one instance, stored with what they tell of, after which the log is trimmed."""

MOVES_SHOWN: Final = 500
"""Moves of one plan that are told one by one; a plan that moves more says how many."""

_READ_AT_ONCE: Final = 100
"""Publications: where ZooKeeper is slow, one after the other would take minutes."""
_MOST_READ: Final = 100_000
"""Events of one publication."""
_NODE: Final = re.compile(r"e-[0-9]{10}")


class EventLog:
    """A bounded log; each entry is one publication's events."""

    def __init__(self, nodes: NodeStore) -> None:
        self._nodes = nodes
        self._added = itertools.count()
        self._groups = NodeGroups(
            nodes, znodes.EVENTS, lambda path, data: _group_of(_read_publication(path, data))
        )

    def append(self, events: tuple[PlacementEvent, ...]) -> None:
        """Add a publication, as far as it fits into a znode, and drop what is beyond the shares."""
        entry = self.entry(events)
        path = self._nodes.create(entry.path, entry.data, sequential=True)
        self._groups.note(path.rpartition("/")[2], _group_of(events))
        self.trim()

    def entry(self, events: tuple[PlacementEvent, ...]) -> NextNode:
        """A publication, as far as it fits into a znode, for a change that is made together with it."""
        chunks = znodes.encode_chunks({"events": [asdict(event) for event in events]})
        while len(chunks) > 1:
            events = events[: len(events) // 2]
            chunks = znodes.encode_chunks({"events": [asdict(event) for event in events]})
        return NextNode(f"{znodes.EVENTS}/e-", chunks[0])

    def change_each(
        self,
        wanted: Mapping[DatastreamName, Sequence[NodeChange]],
        made: Callable[[Sequence[DatastreamName]], None],
        make_alone: Callable[[DatastreamName], None],
    ) -> None:
        """As `znodes.change_each`, for changes among which are the entries that tell of them."""
        znodes.change_each(self._nodes, wanted, made, make_alone)

    def trim_now_and_then(self) -> None:
        """An entry was stored with a change that comes often: a listing after each would cost more than the
        change."""
        if next(self._added) % _TRIMMED_EVERY == 0:
            self._drop(lambda _: None)  # where another instance drops them, too, the next one does

    def trim(self) -> None:
        """Drop all but the newest publications of each group."""
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
        """At most `limit` events, newest publication first. A damaged publication is one event that says
        so."""
        events: list[PlacementEvent] = []
        paths = [f"{znodes.EVENTS}/{node}" for node in reversed(self._publications())]
        while paths and len(events) < limit:
            some, paths = paths[:_READ_AT_ONCE], paths[_READ_AT_ONCE:]
            for path, node in self._nodes.read_present(some).items():
                events.extend(_read_publication(path, node.data))
        return tuple(events[:limit])

    def publications(
        self, known: Mapping[int, tuple[PlacementEvent, ...]], watch: Watch
    ) -> Mapping[int, tuple[PlacementEvent, ...]]:
        """All publications by their numbers, oldest first; those that are known are not read again. The watch
        fires when one is added or dropped."""
        nodes = {int(node[2:]): f"{znodes.EVENTS}/{node}" for node in self._publications(watch)}
        unknown = [path for number, path in nodes.items() if number not in known]
        found: dict[str, Node] = {}
        for start in range(0, len(unknown), _READ_AT_ONCE):
            found.update(self._nodes.read_present(unknown[start : start + _READ_AT_ONCE]))
        read = {path: tuple(_read_publication(path, node.data)) for path, node in found.items()}
        return {
            number: known[number] if number in known else read[path]
            for number, path in nodes.items()
            if number in known or path in read
        }

    def _publications(self, watch: Watch | None = None) -> list[str]:
        """Nodes of publications, oldest first; what else somebody put there is none."""
        return [node for node in self._nodes.children(znodes.EVENTS, watch) if _NODE.fullmatch(node)]


def _group_of(events: Iterable[PlacementEvent]) -> str:
    """Return the group or datastream whose share a publication counts against; empty for several or none."""
    names = {event.datastream for event in events if event.datastream}
    return names.pop() if len(names) == 1 else ""


def _most_of(group: str) -> int:
    return KEPT_OF_GROUP if group else KEPT


def _read_publication(path: str, data: bytes) -> list[PlacementEvent]:
    try:
        stored = bounds.field(znodes.decode_chunks([data], path), "events")
        entries = bounds.sequence("events", stored, _MOST_READ)
        return [_read_event(bounds.mapping("an event", one)) for one in entries]
    except (CorruptData, InvalidRequest, LookupError, TypeError, ValueError) as error:
        nobody, nothing = InstanceName(""), f"znode {path} cannot be read: {damage_of(error)}"
        return [
            _sentence_event(0, f"damaged/{path.rpartition('/')[2]}", ChangeKind.PROBLEM, nobody, "", nothing)
        ]


def _read_event(document: Mapping[str, Any]) -> PlacementEvent:
    """Fields that are not known are left out: a newer version may have written them."""
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
    """The event of a plan; one for each group that it changes, with the reasons for its tasks; one
    for each move (the first `MOVES_SHOWN`). `loads`: bytes per second of what moves, as far as known;
    `reasons`: why each moves."""
    changed = {move.group for move in moves}
    return (
        _plan_event(plan, leader, "", plan.reason),
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


def problem_event(
    leader: InstanceName, name: DatastreamName, problem: Problem, now_ms: int, *, is_over: bool = False
) -> PlacementEvent:
    """A datastream is set aside, or there is a remark about it; or, `is_over`, there is not any more. While
    it lasts, its reason may become another one."""
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
        return f"over: {problem.reason}" if is_over else problem.reason
    return f"not set aside any more; it was: {problem.reason}" if is_over else f"set aside: {problem.reason}"


def loads_event(
    leader: InstanceName,
    source: str,
    since_ms: int,
    sentence: str,
    now_ms: int,
    *,
    is_over: bool = False,
) -> PlacementEvent:
    """The loads of a source cluster, or what was observed of them, are stale or not to be had; or, `is_over`,
    are known again."""
    key = f"loads/{legible(source)}/{since_ms}{'/over' if is_over else ''}"
    return _sentence_event(now_ms, key, ChangeKind.LOADS, leader, "", sentence)


def recovery_event(leader: InstanceName, plan: Plan, reason: str, now_ms: int) -> PlacementEvent:
    """The plan in force cannot be read; the leader goes on from this one."""
    sentence = legible(
        f"{reason}; the leader goes on from epoch {plan.epoch} with {counted(len(plan.tasks), 'task')}"
    )
    key = f"recovery/{plan.epoch}"
    return _event(now_ms, plan.epoch, key, ChangeKind.PROBLEM, leader, "", sentence)


def request_event(leader: InstanceName, request: Request, reason: str, now_ms: int) -> PlacementEvent:
    """A request that cannot be carried out, and is not tried again."""
    sentence = f"{cause_of(request)}; it cannot be done: {reason}"
    key = f"request/{request.identity}"
    return _sentence_event(now_ms, key, ChangeKind.REQUEST, leader, request.group, sentence)


def command_event(name: DatastreamName, sentence: str, now_ms: int) -> PlacementEvent:
    """What a person did to a datastream over REST; no instance decided it."""
    key = f"command/{legible(name)}/{now_ms}/{zlib.crc32(sentence.encode(errors='replace')):08x}"
    return _sentence_event(now_ms, key, ChangeKind.COMMAND, InstanceName(""), name, sentence)


def _sentence_event(
    now_ms: int, key: str, kind: ChangeKind, leader: InstanceName, datastream: str, sentence: str
) -> PlacementEvent:
    """An event that is about no plan and no partition."""
    return _event(now_ms, NO_EPOCH, key, kind, leader, legible(datastream), legible(sentence))


def _plan_event(plan: Plan, leader: InstanceName, group: str, sentence: str) -> PlacementEvent:
    """An event about a plan, or about what it does with one group."""
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
    """An event that is about no partition."""
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
    plan: Plan,
    leader: InstanceName,
    move: Move,
    reason: str,
    bytes_per_second: float | None,
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
