"""Plans in ZooKeeper: whole or not at all, and only what changed is written and read.

A group's tasks are a document of their own, stored under the epoch that last changed them. The
commit marker names, for its epoch, every group's document. Order of a publication: documents first,
then the marker by compare-and-set, then clean-up. Stopped before the marker, nothing has happened;
stopped after it, only rubbish is left, which a later publication removes. Two leaders that believe
in themselves at once write to folders of their own, only one of their markers is accepted, and
clean-up touches nothing newer than its own epoch.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mirror.coordination import znodes
from mirror.errors import AlreadyExists, CorruptData, NotFound, VersionConflict
from mirror.model.identifiers import NO_EPOCH, Epoch, GroupName, InstanceName, TaskName
from mirror.model.plan import Plan, TaskPlacement
from mirror.ports import NodeStore, Watch


@dataclass(frozen=True)
class StoredPlan:
    """A plan and where its parts are kept. `documents`: the folder of each group's document."""

    plan: Plan
    version: int | None
    documents: Mapping[GroupName, str]


NO_PLAN = StoredPlan(Plan(NO_EPOCH, (), 0, "no plan yet"), None, {})


def group_document(tasks: tuple[TaskPlacement, ...]) -> dict[str, Any]:
    """The tasks of one group as JSON-ready values."""
    return {
        "tasks": [
            {
                "task": placement.task,
                "instance": placement.instance,
                "partitions": znodes.encode_partitions(placement.partitions),
            }
            for placement in tasks
        ]
    }


def group_tasks(group: GroupName, document: Mapping[str, Any]) -> tuple[TaskPlacement, ...]:
    """The inverse of `group_document`."""
    return tuple(
        TaskPlacement(
            TaskName(entry["task"]),
            group,
            InstanceName(entry["instance"]) if entry["instance"] else None,
            znodes.decode_partitions(entry["partitions"]),
        )
        for entry in document["tasks"]
    )


class PlanStore:
    """Reads and publishes plans. `writer` must differ between processes."""

    def __init__(self, nodes: NodeStore, writer: str, chunk_bytes: int = znodes.CHUNK_BYTES) -> None:
        self._nodes = nodes
        self._writer = writer
        self._chunk_bytes = chunk_bytes

    def read(self, known: StoredPlan = NO_PLAN, watch: Watch | None = None) -> StoredPlan:
        """The plan in force; groups that `known` holds already are not read again.

        Raises CorruptData when a document that the marker names is missing or damaged.
        """
        failed_version: int | None = None
        while True:
            try:
                node = self._nodes.read(znodes.PLAN, watch)
            except NotFound:
                return NO_PLAN
            if node.version == known.version:
                return known
            if not node.data:
                return NO_PLAN
            try:
                return self._assemble(znodes.decode_chunks([node.data], znodes.PLAN), node.version, known)
            except (NotFound, CorruptData) as error:
                # A newer plan was committed and the old documents are being cleaned up: read again.
                if node.version == failed_version:
                    raise CorruptData(
                        f"plan {znodes.PLAN} cannot be read: {error.message}",
                        advice="stop all instances, delete it and start them: the leader makes another",
                    ) from error
                failed_version = node.version

    def publish(self, plan: Plan, previous: StoredPlan) -> StoredPlan:
        """Make the plan the one in force.

        Raises VersionConflict when another one was published since `previous` was read.
        """
        documents: dict[GroupName, str] = {}
        for group in sorted({placement.group for placement in plan.tasks}):
            tasks = plan.of_group(group)
            if group in previous.documents and tasks == previous.plan.of_group(group):
                documents[group] = previous.documents[group]
            else:
                documents[group] = self._write_group(group, plan.epoch, tasks)
        version = self._commit(_marker(plan, documents), previous)
        self._clean(plan.epoch, documents)
        return StoredPlan(plan, version, documents)

    def _assemble(self, marker: Mapping[str, Any], version: int, known: StoredPlan) -> StoredPlan:
        documents = {GroupName(group): folder for group, folder in marker["groups"].items()}
        tasks: list[TaskPlacement] = []
        for group, folder in documents.items():
            if known.documents.get(group) == folder:
                tasks.extend(known.plan.of_group(group))
            else:
                tasks.extend(self._read_group(group, folder))
        plan = Plan(Epoch(marker["epoch"]), tuple(tasks), marker["created_ms"], marker["reason"])
        return StoredPlan(plan, version, documents)

    def _write_group(self, group: GroupName, epoch: Epoch, tasks: tuple[TaskPlacement, ...]) -> str:
        folder = f"{epoch:010}-{self._writer}"
        path = f"{znodes.child(znodes.PLAN, group)}/{folder}"
        self._nodes.delete_tree(path)  # what we left when a publication failed half-way
        for number, chunk in enumerate(znodes.encode_chunks(group_document(tasks), self._chunk_bytes)):
            self._nodes.create(f"{path}/{number:04}", chunk)
        return folder

    def _read_group(self, group: GroupName, folder: str) -> tuple[TaskPlacement, ...]:
        path = f"{znodes.child(znodes.PLAN, group)}/{folder}"
        names = self._nodes.children(path)
        if not names:
            raise NotFound(f"{path} is gone")
        chunks = [self._nodes.read(f"{path}/{name}").data for name in names]
        return group_tasks(group, znodes.decode_chunks(chunks, path))

    def _commit(self, marker: bytes, previous: StoredPlan) -> int:
        if previous.version is not None:
            return self._nodes.write(znodes.PLAN, marker, previous.version)
        with contextlib.suppress(AlreadyExists):  # made as the parent of the first documents
            self._nodes.create(znodes.PLAN)
        node = self._nodes.read(znodes.PLAN)
        if node.data:
            raise VersionConflict("another leader published the first plan")
        return self._nodes.write(znodes.PLAN, marker, node.version)

    def _clean(self, epoch: Epoch, documents: Mapping[GroupName, str]) -> None:
        for node in self._nodes.children(znodes.PLAN):
            path = f"{znodes.PLAN}/{node}"
            group = GroupName(znodes.name_of(node))
            folders = self._nodes.children(path)
            stale = [
                folder
                for folder in folders
                if folder != documents.get(group) and int(folder.partition("-")[0]) <= epoch
            ]
            for folder in stale:
                self._nodes.delete_tree(f"{path}/{folder}")
            if group not in documents and len(stale) == len(folders):
                with contextlib.suppress(VersionConflict):  # a newer leader has just used it
                    self._nodes.delete(path)


def _marker(plan: Plan, documents: Mapping[GroupName, str]) -> bytes:
    (chunk,) = znodes.encode_chunks(
        {"epoch": plan.epoch, "created_ms": plan.created_ms, "reason": plan.reason, "groups": documents}
    )
    return chunk
