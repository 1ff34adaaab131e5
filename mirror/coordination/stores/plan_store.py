"""Plans in ZooKeeper: whole or not at all, and only what changed is written and read.

What one instance runs of one group is a document of its own. The commit marker names every document
of its epoch, so that an instance reads the marker and what concerns it. Order of a publication:
documents first, then the marker by compare-and-set, then clean-up. Stopped before the marker, nothing
has happened; stopped after it, only rubbish is left, which the next leader's first publication
removes. Two leaders that believe in themselves at once write documents of their own, only one of
their markers is accepted, and clean-up touches nothing newer than its own epoch.
"""

from __future__ import annotations

import contextlib
import math
import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, unquote

import structlog

from mirror.coordination.stores import znodes
from mirror.errors import (
    AlreadyExists,
    CoordinationError,
    CorruptData,
    DamagedState,
    InvalidRequest,
    NotFound,
    PlanRejected,
    Unreachable,
    VersionConflict,
    damage_of,
)
from mirror.model import bounds
from mirror.model.identifiers import NO_EPOCH, DatastreamName, Epoch, GroupName, InstanceName, TaskName
from mirror.model.plan import Departure, Plan, TaskPlacement
from mirror.ports import NodeStore, Watch
from mirror.wording import counted

_log = structlog.get_logger(__name__)
_EPOCH: Final = re.compile("[0-9]{1,18}")
_LARGEST_EPOCH: Final = 2**52
"""A document that claims a larger one is none of ours."""
_BYTES_SHOWN: Final = 200
_MOST_CHUNKS: Final = 1_000
_LONGEST_TASK: Final = 1_000
_LONGEST_PATH: Final = 4_000
"""Bytes. With a chunk of a document it stays below what ZooKeeper takes in one request."""

Part = tuple[GroupName, InstanceName | None]
"""What one instance (None: nobody) runs of one group."""


@dataclass(frozen=True)
class StoredPlan:
    """A plan and where its parts are kept. `documents`: the node of each part, as far as it was read.
    `task_counts`: of each group over all instances, also those whose parts were not read."""

    plan: Plan
    version: int | None
    documents: Mapping[Part, str]
    task_counts: Mapping[GroupName, int]


NO_PLAN = StoredPlan(Plan(NO_EPOCH, (), 0, "no plan yet"), None, {}, {})


class LatestPlan:
    """The plan in force at each call; only what has changed since the last call is read. For any thread."""

    def __init__(self, plans: PlanStore) -> None:
        self._plans = plans
        self._known = NO_PLAN

    def __call__(self) -> Plan:
        """Raises DamagedState as `PlanStore.read`."""
        known = self._plans.read(self._known)
        self._known = known
        return known.plan


class PlanStore:
    """Reads and publishes plans. `writer` is for people: it says who wrote a document."""

    def __init__(self, nodes: NodeStore, writer: str, chunk_bytes: int = znodes.CHUNK_BYTES) -> None:
        self._nodes = nodes
        self._writer = f"{writer}-{secrets.token_hex(4)}"
        self._chunk_bytes = chunk_bytes
        self._attempts = 0
        self._published: int | None = None

    def read(self, known: StoredPlan = NO_PLAN, watch: Watch | None = None) -> StoredPlan:
        """The plan in force; parts that `known` holds already are not read again.

        Parts whose documents are missing or damaged are left out; the leader then plans their groups again.
        Raises DamagedState when the marker is damaged.
        """
        return self._read(known, watch, None)

    def read_for(
        self, instance: InstanceName, known: StoredPlan = NO_PLAN, watch: Watch | None = None
    ) -> StoredPlan:
        """As `read`, with the tasks of one instance only."""
        return self._read(known, watch, instance)

    def recover(self, last: Plan, obeyed: Iterable[Epoch]) -> tuple[StoredPlan, str]:
        """What to plan on from while the marker cannot be read, and what it holds.

        `last`: the newest plan that the caller has read; without one (epoch 0) the documents are put together
        again as far as they agree. `obeyed`: epochs that live instances obey. The epoch is not below any that
        somebody can have obeyed: each publication since the newest document was written has raised the
        marker's version by one and the epoch by one. A marker that another leader has replaced meanwhile may
        name no document, and says the epoch itself. The next publication writes every document again.
        Raises NotFound when there is no marker.
        """
        node = self._nodes.read(znodes.PLAN)
        names = [
            (GroupName(znodes.name_of(folder)), name)
            for folder in self._nodes.children(znodes.PLAN)
            for name in self._nodes.children(f"{znodes.PLAN}/{folder}")
            if _epoch_of(name) <= _LARGEST_EPOCH
        ]
        known = (last.epoch, *obeyed, *(int(_epoch_of(name)) for _, name in names))
        highest = max((*known, _epoch_in(node.data)))
        tasks = last.tasks if last.epoch else self._reassembled(names)
        plan = Plan(Epoch(highest + node.version), tasks, 0, "put together again", last.departed)
        held = f"{len(node.data)} bytes that begin with {node.data[:_BYTES_SHOWN]!r}"
        return StoredPlan(plan, node.version, {}, plan.task_counts), held

    def _reassembled(self, names: Iterable[tuple[GroupName, str]]) -> tuple[TaskPlacement, ...]:
        """The tasks in the newest document of each part, but for groups whose documents contradict each
        other or cannot be read: those are planned from scratch."""
        newest: dict[Part, str] = {}
        for group, name in sorted(names, key=lambda one: _epoch_of(one[1])):
            newest[group, _instance_in(name)] = name
        damaged = {group for group, _ in self._damaged(list(newest.items()))}
        wanted = [(part, name) for part, name in newest.items() if part[0] not in damaged]
        tasks = self._read_parts(wanted)
        torn = _contradicting(tasks)
        kept = (one for one in tasks if one.group not in torn)
        return tuple(sorted(kept, key=lambda placement: (placement.group, placement.task)))

    def publish(self, plan: Plan, previous: StoredPlan) -> StoredPlan:
        """Make the plan the one in force.

        Raises VersionConflict when another one was published since `previous` was read.
        """
        self._attempts += 1
        before = _parts(previous.plan)
        documents: dict[Part, str] = {}
        nodes: list[tuple[str, bytes]] = []
        for part, tasks in _parts(plan).items():
            if part in previous.documents and before.get(part) == tasks:
                documents[part] = previous.documents[part]
            else:
                documents[part], made = self._document(part, tasks, plan.epoch, len(documents))
                nodes.extend(made)
        is_ours = previous.version is not None and previous.version == self._published
        self._published = None
        self._nodes.create_all(nodes)
        version = self._commit(_marker(plan, documents), previous)
        if is_ours:
            self._clean_replaced(previous.documents, documents)
        else:
            self._clean_all(plan.epoch, documents)
        self._published = version
        return StoredPlan(plan, version, documents, plan.task_counts)

    def _read(self, known: StoredPlan, watch: Watch | None, only: InstanceName | None) -> StoredPlan:
        failed_version: int | None = None
        while True:
            try:
                node = self._nodes.read(znodes.PLAN, watch)
            except NotFound:
                return NO_PLAN
            if node.version == known.version:
                return known
            if not node.data and not node.version:
                return NO_PLAN  # it was made as the parent of the first documents
            try:
                marker = znodes.decode_chunks([node.data], znodes.PLAN)
                # What fails at first may be an old document that is cleaned up, as a newer plan is there.
                return self._assemble(marker, node.version, known, only, failed_version == node.version)
            except (NotFound, CorruptData, InvalidRequest, PlanRejected, ValueError) as error:
                if node.version == failed_version:
                    raise DamagedState(
                        f"plan {znodes.PLAN} cannot be read: {damage_of(error)}",
                        advice="the leader publishes another; what runs goes on meanwhile",
                    ) from error
                failed_version = node.version

    def _assemble(
        self,
        marker: Mapping[str, Any],
        version: int,
        known: StoredPlan,
        only: InstanceName | None,
        leave_out_damaged: bool,
    ) -> StoredPlan:
        documents = {part: name for part, name in _documents(marker) if only is None or part[1] == only}
        parts = _parts(known.plan)
        unknown = [part for part, name in documents.items() if known.documents.get(part) != name]
        wanted = [(part, documents[part]) for part in unknown]
        tasks: list[TaskPlacement] = []
        if leave_out_damaged:
            for part in self._damaged(wanted):
                del documents[part]
            wanted = [one for one in wanted if one[0] in documents]
        tasks.extend(self._read_parts(wanted))
        for part in documents.keys() - set(unknown):
            tasks.extend(parts.get(part, ()))
        if leave_out_damaged and (torn := _contradicting(tasks)):
            _log.error("groups of the plan left out: their documents contradict each other", groups=torn)
            tasks = [one for one in tasks if one.group not in torn]
            documents = {part: name for part, name in documents.items() if part[0] not in torn}
        in_order = tuple(sorted(tasks, key=lambda placement: (placement.group, placement.task)))
        return StoredPlan(_plan(marker, in_order), version, documents, _task_counts(marker))

    def _document(
        self, part: Part, tasks: tuple[TaskPlacement, ...], epoch: Epoch, number: int
    ) -> tuple[str, list[tuple[str, bytes]]]:
        """Name and nodes of a new document: the first chunk, and further ones below it."""
        content: dict[str, Any] = {one.task: znodes.encode_partitions(one.partitions) for one in tasks}
        first, *others = znodes.encode_chunks(content, self._chunk_bytes)
        home = quote(part[1] or "", safe="")
        name = f"{epoch:010}-{self._writer}.{self._attempts}-{number}@{home}x{len(others)}"
        path = f"{znodes.child(znodes.PLAN, part[0])}/{name}"
        return name, [(path, first), *((f"{path}/{i:04}", chunk) for i, chunk in enumerate(others))]

    def _damaged(self, wanted: list[tuple[Part, str]]) -> list[Part]:
        """Parts that cannot be read; their groups are planned again, which writes them again."""
        found = []
        for part, name in wanted:
            try:
                self._read_parts([(part, name)])
            except (Unreachable, CoordinationError):
                raise
            except Exception as error:  # noqa: BLE001 - the bulkhead around one part of the plan
                _log.error("part of the plan left out", group=part[0], document=name, reason=damage_of(error))
                found.append(part)
        return found

    def _read_parts(self, wanted: list[tuple[Part, str]]) -> list[TaskPlacement]:
        paths = [_document_paths(part, name) for part, name in wanted]
        nodes = iter(self._nodes.read_all([path for chunks in paths for path in chunks]))
        tasks: list[TaskPlacement] = []
        for ((group, instance), _), chunks in zip(wanted, paths, strict=True):
            content = znodes.decode_chunks([next(nodes).data for _ in chunks], chunks[0])
            tasks.extend(_placement(task, group, instance, found) for task, found in content.items())
        return tasks

    def _commit(self, marker: bytes, previous: StoredPlan) -> int:
        if previous.version is not None:
            return self._nodes.write(znodes.PLAN, marker, previous.version)
        with contextlib.suppress(AlreadyExists):  # made as the parent of the first documents
            self._nodes.create(znodes.PLAN)
        node = self._nodes.read(znodes.PLAN)
        if node.data:
            raise VersionConflict("another leader published the first plan")
        return self._nodes.write(znodes.PLAN, marker, node.version)

    def _clean_replaced(self, before: Mapping[Part, str], after: Mapping[Part, str]) -> None:
        for part, name in before.items():
            if after.get(part) != name:
                self._delete_document(f"{znodes.child(znodes.PLAN, part[0])}/{name}")
        for group in {group for group, _ in before} - {group for group, _ in after}:
            self._delete_empty(znodes.child(znodes.PLAN, group))

    def _clean_all(self, epoch: Epoch, documents: Mapping[Part, str]) -> None:
        """Also what publications that broke off have left."""
        kept: dict[str, set[str]] = {}
        for (group, _), name in documents.items():
            kept.setdefault(znodes.child(znodes.PLAN, group), set()).add(name)
        for node in self._nodes.children(znodes.PLAN):
            path = f"{znodes.PLAN}/{node}"
            names = self._nodes.children(path)
            stale = [name for name in names if name not in kept.get(path, ()) and _epoch_of(name) <= epoch]
            for name in stale:
                self._nodes.delete_tree(f"{path}/{name}")
            if path not in kept and len(stale) == len(names):
                self._delete_empty(path)

    def _delete_document(self, path: str) -> None:
        try:
            self._nodes.delete(path)  # one request, most documents are small
        except VersionConflict:  # it has further chunks
            self._nodes.delete_tree(path)

    def _delete_empty(self, path: str) -> None:
        with contextlib.suppress(VersionConflict):  # a newer leader has just used it
            self._nodes.delete(path)


def check_storable(group: GroupName) -> None:
    """Raises InvalidRequest when documents cannot be kept under a group's name: the request would end the
    session with ZooKeeper."""
    try:
        length = len(znodes.child(znodes.PLAN, group).encode())
    except UnicodeError as error:
        raise InvalidRequest("the task prefix cannot be stored", advice="use printable characters") from error
    if length > _LONGEST_PATH:
        raise InvalidRequest(
            f"the task prefix takes {length} bytes in ZooKeeper, which is too long",
            advice=f"at most {_LONGEST_PATH} are possible",
        )


def _parts(plan: Plan) -> dict[Part, tuple[TaskPlacement, ...]]:
    found: dict[Part, list[TaskPlacement]] = {}
    for placement in plan.tasks:
        found.setdefault((placement.group, placement.instance), []).append(placement)
    return {part: tuple(placements) for part, placements in found.items()}


def _epoch_of(name: str) -> float:
    """Of a document; infinite for a node that is none of ours, which nobody cleans up."""
    digits = name.partition("-")[0]
    return int(digits) if _EPOCH.fullmatch(digits) else math.inf


def _instance_in(name: str) -> InstanceName | None:
    """Whose document it is, by its name."""
    _, mark, home = name.rpartition("x")[0].rpartition("@")
    return InstanceName(unquote(home)) if mark and home else None


def _document_paths(part: Part, name: str) -> list[str]:
    """Raises InvalidRequest for a name that is no document's."""
    path = f"{znodes.child(znodes.PLAN, part[0])}/{name}"
    further = bounds.digits("the chunks of a document", name.rpartition("x")[2], 0, _MOST_CHUNKS)
    return [path, *(f"{path}/{number:04}" for number in range(further))]


def _documents(marker: Mapping[str, Any]) -> Iterable[tuple[Part, str]]:
    """Raises InvalidRequest."""
    for group, by_instance in bounds.mapping("documents", bounds.field(marker, "documents")).items():
        for instance, name in bounds.mapping("documents", by_instance).items():
            document = bounds.line("the name of a document", name, _LONGEST_PATH)
            yield (GroupName(group), InstanceName(instance) if instance else None), document


def _plan(marker: Mapping[str, Any], tasks: tuple[TaskPlacement, ...]) -> Plan:
    departed = {}
    for name, value in bounds.mapping("departed", bounds.field(marker, "departed")).items():
        left_ms, names = bounds.sequence("a departure", value, 2)
        tasks_left = bounds.sequence("tasks of a departure", names, znodes.MOST_PARTITIONS)
        departed[InstanceName(name)] = Departure(
            bounds.integer("the moment of a departure", left_ms, 0, bounds.LARGEST_MS),
            frozenset(TaskName(bounds.text("a task", one, _LONGEST_TASK)) for one in tasks_left),
        )
    return Plan(
        Epoch(bounds.integer("the epoch", bounds.field(marker, "epoch"), 0, 2**53)),
        tasks,
        bounds.integer("the moment of the plan", bounds.field(marker, "created_ms"), 0, bounds.LARGEST_MS),
        bounds.text("the reason", bounds.field(marker, "reason"), znodes.CHUNK_BYTES),
        departed,
        _excluded(marker),
    )


def _epoch_in(data: bytes) -> Epoch:
    """Of a marker; 0 where it cannot be read, or claims one that is none of ours."""
    try:
        epoch = _plan(znodes.decode_chunks([data], znodes.PLAN), ()).epoch
    except (CorruptData, InvalidRequest, PlanRejected, ValueError):
        return NO_EPOCH
    return epoch if epoch <= _LARGEST_EPOCH else NO_EPOCH


def _excluded(marker: Mapping[str, Any]) -> dict[DatastreamName, frozenset[str] | None]:
    """Markers of versions that knew of none do not have it."""
    found: dict[DatastreamName, frozenset[str] | None] = {}
    for name, topics in bounds.mapping("excluded", marker.get("excluded", {})).items():
        if topics is not None and not isinstance(topics, list):
            raise InvalidRequest(f"topics excluded of {bounds.shown(name)} are no list")
        found[DatastreamName(name)] = (
            None if topics is None else frozenset(bounds.text("a topic", one, 249) for one in topics)
        )
    return found


def _contradicting(tasks: Iterable[TaskPlacement]) -> list[GroupName]:
    """Groups of which a task or a partition is in two documents. Groups share no names of tasks."""
    by_group: dict[GroupName, list[TaskPlacement]] = {}
    for one in tasks:
        by_group.setdefault(one.group, []).append(one)
    found = []
    for group, placements in by_group.items():
        try:
            Plan(NO_EPOCH, tuple(placements), 0, "")
        except PlanRejected:
            found.append(group)
    return found


def _task_counts(marker: Mapping[str, Any]) -> dict[GroupName, int]:
    counts = bounds.mapping("task_counts", marker.get("task_counts", {}))
    most = znodes.MOST_PARTITIONS
    return {GroupName(name): bounds.integer("tasks", one, 0, most) for name, one in counts.items()}


def _placement(task: str, group: GroupName, instance: InstanceName | None, found: object) -> TaskPlacement:
    """A task has its group's name, so that what is wrong in one document concerns no other group. Raises
    InvalidRequest, ValueError."""
    before, _, number = task.rpartition("-")
    if before != group:
        raise InvalidRequest(f"task {bounds.shown(task)} is none of the group {group}")
    bounds.digits("the number of a task", number, 0, znodes.MOST_PARTITIONS)
    ranges = bounds.mapping("partitions", found)
    for topic, one in ranges.items():
        bounds.text(f"partitions of {topic}", one, znodes.LARGEST_DOCUMENT)
    return TaskPlacement(TaskName(task), group, instance, znodes.decode_partitions(ranges))


def _marker(plan: Plan, documents: Mapping[Part, str]) -> bytes:
    by_group: dict[str, dict[str, str]] = {}
    for (group, instance), name in documents.items():
        by_group.setdefault(group, {})[instance or ""] = name
    departed = {name: [one.left_ms, sorted(one.tasks)] for name, one in plan.departed.items()}
    chunks = znodes.encode_chunks(
        {
            "epoch": plan.epoch,
            "created_ms": plan.created_ms,
            "reason": plan.reason,
            "documents": by_group,
            "task_counts": dict(plan.task_counts),
            "departed": departed,
            "excluded": {
                name: None if topics is None else sorted(topics) for name, topics in plan.excluded.items()
            },
        }
    )
    if len(chunks) > 1:
        raise PlanRejected(
            f"a plan of {counted(len(by_group), 'group')} in {counted(len(documents), 'part')} "
            "is too large for one znode",
            advice="let datastreams share tasks (system.taskPrefix), or run fewer, larger instances",
        )
    return chunks[0]
