"""Stores plans in the coordination store. Plans are published atomically; only changes are written and read.

Each document contains the tasks of one group that one instance runs. The commit marker names every document
of its epoch, so an instance reads only the marker and its own documents.

A publication writes the documents, then replaces the marker with compare-and-set, and finally deletes old
documents. If publishing is interrupted before it replaces the marker, the plan is unchanged. If publishing is
interrupted later, old documents remain until the next leader publishes. Two concurrent leaders write separate
documents, and only one of their markers is accepted. A leader never deletes documents of later epochs.
"""

from __future__ import annotations

import contextlib
import math
import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from urllib.parse import quote, unquote

from mirror.bulkheads import Bulkhead
from mirror.coordination.stores import node_codec, znodes
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
)
from mirror.loggers import get_logger
from mirror.model import bounds
from mirror.model.identifiers import NO_EPOCH, DatastreamName, Epoch, GroupName, InstanceName, TaskName
from mirror.model.nodes import NodeDeletion
from mirror.model.plan import Departure, Plan, TaskPlacement
from mirror.model.reasons import damage_of
from mirror.ports import NodeStore, Watch
from mirror.wording import counted

_log = get_logger(__name__)
_EPOCH: Final = re.compile("[0-9]{1,18}")
_LARGEST_EPOCH: Final = 2**52
"""Maximum plausible epoch of a plan. Documents with a higher epoch were not written by Headrace."""
_BYTES_SHOWN: Final = 200
_MOST_CHUNKS: Final = 1_000
_LONGEST_TASK: Final = 1_000
_LONGEST_PATH: Final = 4_000
"""Maximum length of a document path in bytes. Path and chunk together stay below the request limit of
ZooKeeper."""

Part = tuple[GroupName, InstanceName | None]
"""Group and instance of a document; None for tasks without an instance."""


@dataclass(frozen=True)
class StoredPlan:
    """A plan as read from the store. `documents`: name of the document from which each part was read.
    `task_counts`: number of tasks of each group, including parts that were not read."""

    plan: Plan
    version: int | None
    documents: Mapping[Part, str]
    task_counts: Mapping[GroupName, int]


NO_PLAN = StoredPlan(Plan(NO_EPOCH, (), 0, "no plan yet"), None, {}, {})


class LatestPlan:
    """Cache of the current plan. Thread-safe. A call reads only changes since the last call."""

    def __init__(self, plans: PlanStore) -> None:
        self._plans = plans
        self._known = NO_PLAN

    def __call__(self) -> Plan:
        """Return the current plan. Raises the errors of `PlanStore.read`."""
        known = self._plans.read(self._known)
        self._known = known
        return known.plan


class PlanStore:
    """Reads and publishes plans. `writer`: name of the writer in document names, for diagnosis."""

    def __init__(self, nodes: NodeStore, writer: str, chunk_bytes: int = node_codec.CHUNK_BYTES) -> None:
        self._nodes = nodes
        self._writer = f"{writer}-{secrets.token_hex(4)}"
        self._chunk_bytes = chunk_bytes
        self._attempts = 0
        self._published: int | None = None

    def read(self, known: StoredPlan = NO_PLAN, watch: Watch | None = None) -> StoredPlan:
        """Return the current plan. Unchanged parts of `known` are not read again.

        Parts with missing or damaged documents are omitted. The leader plans the groups of omitted documents
        again. Raises DamagedState if the marker is damaged.
        """
        return self._read(known, watch, None)

    def read_for(
        self, instance: InstanceName, known: StoredPlan = NO_PLAN, watch: Watch | None = None
    ) -> StoredPlan:
        """Return the current plan with only the tasks of one instance."""
        return self._read(known, watch, instance)

    def recover(self, last: Plan, obeyed: Iterable[Epoch]) -> tuple[StoredPlan, str]:
        """Rebuild a plan after the marker became unreadable. Also describe the marker's content.

        `last`: latest plan that the caller has read. A plan with epoch 0 is rebuilt from the documents that
        do not conflict. `obeyed`: epochs that live instances follow. Raises NotFound if there is no marker.

        The returned epoch is at least as high as any epoch that an instance can have followed, because each
        publication increments both the version of the marker and the epoch. If another leader has published a
        marker that names no documents, the epoch of that marker is used. The next publication writes all
        documents again.
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
        plan = Plan(Epoch(highest + node.version), tasks, 0, "rebuilt from documents", last.departed)
        held = f"{len(node.data)} bytes starting with {node.data[:_BYTES_SHOWN]!r}"
        return StoredPlan(plan, node.version, {}, plan.task_counts), held

    def _reassembled(self, names: Iterable[tuple[GroupName, str]]) -> tuple[TaskPlacement, ...]:
        """Return the tasks in the latest document of each group and instance. Groups with conflicting or
        unreadable documents are omitted, and will be planned from scratch."""
        newest: dict[Part, str] = {}
        for group, name in sorted(names, key=lambda entry: _epoch_of(entry[1])):
            newest[group, _instance_in(name)] = name
        damaged = {group for group, _ in self._damaged(list(newest.items()))}
        wanted = [(part, name) for part, name in newest.items() if part[0] not in damaged]
        tasks = self._read_parts(wanted)
        torn = _contradicting(tasks)
        kept = (task for task in tasks if task.group not in torn)
        return tuple(sorted(kept, key=lambda placement: (placement.group, placement.task)))

    def publish(self, plan: Plan, previous: StoredPlan) -> StoredPlan:
        """Publish a plan. Raises VersionConflict if another plan was published since `previous` was read."""
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
                return NO_PLAN  # created as the parent of the first documents
            try:
                marker = node_codec.decode_chunks([node.data], znodes.PLAN)
                # The first failure may be caused by clean-up of an old document after a newer plan.
                return self._assemble(marker, node.version, known, only, failed_version == node.version)
            except (NotFound, CorruptData, InvalidRequest, PlanRejected, ValueError) as error:
                if node.version == failed_version:
                    raise DamagedState(
                        f"cannot read plan {znodes.PLAN}: {damage_of(error)}",
                        advice="the leader publishes a new plan; running tasks are not affected",
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
            wanted = [entry for entry in wanted if entry[0] in documents]
        tasks.extend(self._read_parts(wanted))
        for part in documents.keys() - set(unknown):
            tasks.extend(parts.get(part, ()))
        if leave_out_damaged and (torn := _contradicting(tasks)):
            _log.error("groups omitted from the plan: conflicting documents", groups=torn)
            tasks = [task for task in tasks if task.group not in torn]
            documents = {part: name for part, name in documents.items() if part[0] not in torn}
        in_order = tuple(sorted(tasks, key=lambda placement: (placement.group, placement.task)))
        return StoredPlan(_plan(marker, in_order), version, documents, _task_counts(marker))

    def _document(
        self, part: Part, tasks: tuple[TaskPlacement, ...], epoch: Epoch, number: int
    ) -> tuple[str, list[tuple[str, bytes]]]:
        """Return the name of a new document, and its nodes. The first node contains the first chunk, and its
        children contain the other chunks."""
        content: dict[str, Any] = {task.task: node_codec.encode_partitions(task.partitions) for task in tasks}
        first, *others = node_codec.encode_chunks(content, self._chunk_bytes)
        home = quote(part[1] or "", safe="")
        name = f"{epoch:010}-{self._writer}.{self._attempts}-{number}@{home}x{len(others)}"
        path = f"{znodes.child(znodes.PLAN, part[0])}/{name}"
        return name, [(path, first), *((f"{path}/{i:04}", chunk) for i, chunk in enumerate(others))]

    def _damaged(self, wanted: list[tuple[Part, str]]) -> list[Part]:
        """Return the groups and instances whose plan documents are unreadable. The leader rewrites damaged
        documents when it plans their groups again."""
        found: list[Part] = []

        def omit(part: Part, name: str, error: Exception) -> None:
            _log.error("damaged plan part omitted", group=part[0], document=name, reason=damage_of(error))
            found.append(part)

        for part, name in wanted:
            with Bulkhead(partial(omit, part, name), through=(Unreachable, CoordinationError)):
                self._read_parts([(part, name)])
        return found

    def _read_parts(self, wanted: list[tuple[Part, str]]) -> list[TaskPlacement]:
        paths = [_document_paths(part, name) for part, name in wanted]
        nodes = iter(self._nodes.read_all([path for chunks in paths for path in chunks]))
        tasks: list[TaskPlacement] = []
        for ((group, instance), _), chunks in zip(wanted, paths, strict=True):
            content = node_codec.decode_chunks([next(nodes).data for _ in chunks], chunks[0])
            tasks.extend(_placement(task, group, instance, found) for task, found in content.items())
        return tasks

    def _commit(self, marker: bytes, previous: StoredPlan) -> int:
        if previous.version is not None:
            return self._nodes.write(znodes.PLAN, marker, previous.version)
        if not self._nodes.read_present([znodes.PLAN]):  # the first documents create it as their parent
            with contextlib.suppress(AlreadyExists):
                self._nodes.create(znodes.PLAN)
        node = self._nodes.read(znodes.PLAN)
        if node.data:
            raise VersionConflict("another leader published the first plan")
        return self._nodes.write(znodes.PLAN, marker, node.version)

    def _clean_replaced(self, before: Mapping[Part, str], after: Mapping[Part, str]) -> None:
        stale = [_document_paths(part, name) for part, name in before.items() if after.get(part) != name]
        changes = {path: [NodeDeletion(node) for node in (*further, path)] for path, *further in stale}
        znodes.change_each(self._nodes, changes, lambda _: None, self._delete_document)
        for group in {group for group, _ in before} - {group for group, _ in after}:
            self._delete_empty(znodes.child(znodes.PLAN, group))

    def _clean_all(self, epoch: Epoch, documents: Mapping[Part, str]) -> None:
        """Delete all stale plan documents, including those of interrupted publications."""
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
            self._nodes.delete(path)  # one request suffices for most documents
        except VersionConflict:  # it has further chunks
            self._nodes.delete_tree(path)

    def _delete_empty(self, path: str) -> None:
        with contextlib.suppress(VersionConflict):  # a newer leader has just used it
            self._nodes.delete(path)


def check_storable(group: GroupName) -> None:
    """Check that the name of a group fits into a path. Raises InvalidRequest. ZooKeeper would close the
    session on a request with a longer path."""
    try:
        length = len(znodes.child(znodes.PLAN, group).encode())
    except UnicodeError as error:
        raise InvalidRequest("cannot store the task prefix", advice="use printable characters") from error
    if length > _LONGEST_PATH:
        raise InvalidRequest(
            f"the task prefix is too long: {length} bytes in the coordination store",
            advice=f"use a shorter one: the limit is {_LONGEST_PATH} bytes",
        )


def _parts(plan: Plan) -> dict[Part, tuple[TaskPlacement, ...]]:
    found: dict[Part, list[TaskPlacement]] = {}
    for placement in plan.tasks:
        found.setdefault((placement.group, placement.instance), []).append(placement)
    return {part: tuple(placements) for part, placements in found.items()}


def _epoch_of(name: str) -> float:
    """Return the epoch in a document's name. Other nodes get infinity, so that they are never deleted."""
    digits = name.partition("-")[0]
    return int(digits) if _EPOCH.fullmatch(digits) else math.inf


def _instance_in(name: str) -> InstanceName | None:
    """Return the instance named in the name of a plan document, or None if the document has no instance."""
    _, mark, home = name.rpartition("x")[0].rpartition("@")
    return InstanceName(unquote(home)) if mark and home else None


def _document_paths(part: Part, name: str) -> list[str]:
    """Return the paths of a document's chunks. Raises InvalidRequest if the name is not a document name."""
    path = f"{znodes.child(znodes.PLAN, part[0])}/{name}"
    further = bounds.digits("the chunk count of a document", name.rpartition("x")[2], 0, _MOST_CHUNKS)
    return [path, *(f"{path}/{number:04}" for number in range(further))]


def _documents(marker: Mapping[str, Any]) -> Iterable[tuple[Part, str]]:
    """Yield group, instance and name of every document that a commit marker lists. Raises InvalidRequest."""
    for group, by_instance in bounds.mapping("documents", bounds.field(marker, "documents")).items():
        for instance, name in bounds.mapping("documents", by_instance).items():
            document = bounds.line("the name of a document", name, _LONGEST_PATH)
            yield (GroupName(group), InstanceName(instance) if instance else None), document


def _plan(marker: Mapping[str, Any], tasks: tuple[TaskPlacement, ...]) -> Plan:
    departed, lost = {}, bounds.sequence("lost instances", marker.get("lost", ()), node_codec.MOST_PARTITIONS)
    for name, value in bounds.mapping("departed", bounds.field(marker, "departed")).items():
        left_ms, names = bounds.sequence("a departure", value, 2)
        tasks_left = bounds.sequence("tasks of a departure", names, node_codec.MOST_PARTITIONS)
        departed[InstanceName(name)] = Departure(
            bounds.integer("the time of a departure", left_ms, 0, bounds.LARGEST_MS),
            frozenset(TaskName(bounds.text("a task", task, _LONGEST_TASK)) for task in tasks_left),
            is_lost=name in lost,
        )
    return Plan(
        Epoch(bounds.integer("the epoch", bounds.field(marker, "epoch"), 0, 2**53)),
        tasks,
        bounds.integer("the time of the plan", bounds.field(marker, "created_ms"), 0, bounds.LARGEST_MS),
        bounds.text("the reason", bounds.field(marker, "reason"), node_codec.CHUNK_BYTES),
        departed,
        _excluded(marker),
    )


def _epoch_in(data: bytes) -> Epoch:
    """Return the epoch of a commit marker; 0 if it is unreadable or implausible."""
    try:
        epoch = _plan(node_codec.decode_chunks([data], znodes.PLAN), ()).epoch
    except (CorruptData, InvalidRequest, PlanRejected, ValueError):
        return NO_EPOCH
    return epoch if epoch <= _LARGEST_EPOCH else NO_EPOCH


def _excluded(marker: Mapping[str, Any]) -> dict[DatastreamName, frozenset[str] | None]:
    """Return the excluded topics of each datastream, read from a commit marker. Old markers contain none."""
    found: dict[DatastreamName, frozenset[str] | None] = {}
    for name, topics in bounds.mapping("excluded", marker.get("excluded", {})).items():
        if topics is not None and not isinstance(topics, list):
            raise InvalidRequest(f"excluded topics of {bounds.shown(name)} must be a list")
        found[DatastreamName(name)] = (
            None if topics is None else frozenset(bounds.text("a topic", topic, 249) for topic in topics)
        )
    return found


def _contradicting(tasks: Iterable[TaskPlacement]) -> list[GroupName]:
    """Return the groups that have the same task or partition in more than one plan document."""
    by_group: dict[GroupName, list[TaskPlacement]] = {}
    for task in tasks:
        by_group.setdefault(task.group, []).append(task)
    found = []
    for group, placements in by_group.items():
        try:
            Plan(NO_EPOCH, tuple(placements), 0, "")
        except PlanRejected:
            found.append(group)
    return found


def _task_counts(marker: Mapping[str, Any]) -> dict[GroupName, int]:
    counts = bounds.mapping("task_counts", marker.get("task_counts", {}))
    most = node_codec.MOST_PARTITIONS
    return {GroupName(name): bounds.integer("tasks", count, 0, most) for name, count in counts.items()}


def _placement(task: str, group: GroupName, instance: InstanceName | None, found: object) -> TaskPlacement:
    """Parse one task of a plan document. Raises InvalidRequest, ValueError. The name of the task must belong
    to its group, so that an error in one document does not affect others."""
    before, _, number = task.rpartition("-")
    if before != group:
        raise InvalidRequest(f"task {bounds.shown(task)} does not belong to group {group}")
    bounds.digits("the number of a task", number, 0, node_codec.MOST_PARTITIONS)
    ranges = bounds.mapping("partitions", found)
    for topic, numbers in ranges.items():
        bounds.text(f"partitions of {topic}", numbers, node_codec.LARGEST_DOCUMENT)
    return TaskPlacement(TaskName(task), group, instance, node_codec.decode_partitions(ranges))


def _marker(plan: Plan, documents: Mapping[Part, str]) -> bytes:
    by_group: dict[str, dict[str, str]] = {}
    for (group, instance), name in documents.items():
        by_group.setdefault(group, {})[instance or ""] = name
    departed = {name: [left.left_ms, sorted(left.tasks)] for name, left in plan.departed.items()}
    chunks = node_codec.encode_chunks(
        {
            "epoch": plan.epoch,
            "created_ms": plan.created_ms,
            "reason": plan.reason,
            "documents": by_group,
            "task_counts": dict(plan.task_counts),
            "departed": departed,
            "lost": sorted(name for name, departure in plan.departed.items() if departure.is_lost),
            "excluded": {
                name: None if topics is None else sorted(topics) for name, topics in plan.excluded.items()
            },
        }
    )
    if len(chunks) > 1:
        raise PlanRejected(
            f"a plan of {counted(len(by_group), 'group')} in {counted(len(documents), 'part')} "
            "is too large for one node",
            advice="let datastreams share tasks (system.taskPrefix), or run fewer, larger instances",
        )
    return chunks[0]
