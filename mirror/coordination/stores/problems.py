"""What is wrong with single datastreams, as the leader found it last: for every instance to show.

A datastream with a problem is set aside: the step that failed for it is left out, what already runs of it
goes on, and every other datastream is served as ever. The problem is over when the step succeeds.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final

import structlog

from mirror.coordination.stores import znodes
from mirror.errors import (
    LONGEST_REASON,
    AlreadyExists,
    CorruptData,
    NotFound,
    VersionConflict,
    legible,
    reason_of,
)
from mirror.model.identifiers import DatastreamName, GroupName
from mirror.ports import NodeStore

__all__ = ["LONGEST_REASON", "Problem", "ProblemStore", "TroubleStore", "legible", "reason_of"]

_log = structlog.get_logger(__name__)
_MOST_TROUBLES: Final = 200


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a datastream is set aside, in a sentence, and since when (epoch ms). With `sets_aside` false it is
    a remark: the datastream is served, and does perhaps not do what its owner thinks. With `is_told` false
    it comes and goes with what is copied, and is no event."""

    reason: str
    since_ms: int
    sets_aside: bool = True
    is_told: bool = True


class ProblemStore:
    """Problems in ZooKeeper, by datastream. Only the leader writes; it alone sees all datastreams."""

    def __init__(self, nodes: NodeStore) -> None:
        self._nodes = nodes
        self._folder = znodes.Folder(nodes, znodes.PROBLEMS, _read_problem)

    def all(self) -> Mapping[DatastreamName, Problem]:
        """Every datastream that is set aside, by name. What another instance has noted just now may be
        missing."""
        return {DatastreamName(znodes.name_of(node)): one for node, one in self._folder.newest().items()}

    def get(self, name: DatastreamName) -> Problem | None:
        """None: nothing is wrong with it."""
        path = znodes.child(znodes.PROBLEMS, name)
        try:
            return _read_problem(path, self._nodes.read(path).data)
        except NotFound:
            return None

    def put_each(self, problems: Mapping[DatastreamName, Problem]) -> None:
        """As `put` of each, in a few transactions."""
        paths = {znodes.child(znodes.PROBLEMS, name): name for name in problems}
        wanted = {path: _data_of(problems[name]) for path, name in paths.items()}
        znodes.change_each(
            self._nodes,
            znodes.replacements(self._nodes, wanted),
            self._are_changed,
            lambda path: self.put(paths[path], problems[paths[path]]),
        )

    def remove_each(self, names: Collection[DatastreamName]) -> None:
        """As `remove` of each, in a few transactions."""
        paths = {znodes.child(znodes.PROBLEMS, name): name for name in names}
        znodes.change_each(
            self._nodes,
            znodes.deletions(self._nodes, list(paths)),
            self._are_changed,
            lambda path: self.remove(paths[path]),
        )

    def _are_changed(self, paths: Sequence[str]) -> None:
        for path in paths:
            self._folder.changed(path)

    def put(self, name: DatastreamName, problem: Problem) -> None:
        """Say what is wrong with a datastream, in place of what was said before."""
        path, data = znodes.child(znodes.PROBLEMS, name), _data_of(problem)
        try:
            node = self._nodes.read(path)
            if node.data != data:
                self._nodes.write(path, data, node.version)
        except NotFound:
            try:
                self._nodes.create(path, data)
            except AlreadyExists as error:
                raise VersionConflict(f"somebody else wrote {path}") from error
        self._folder.changed(path)

    def remove(self, name: DatastreamName) -> None:
        """Nothing is wrong with it any more."""
        path = znodes.child(znodes.PROBLEMS, name)
        self._nodes.delete_tree(path)
        self._folder.changed(path)


def _data_of(problem: Problem) -> bytes:
    return znodes.encode({**asdict(problem), "reason": legible(problem.reason)})


def _read_problem(path: str, data: bytes) -> Problem:
    try:
        document = znodes.decode(data, path)
        sets_aside, is_told = (document.get(name) is not False for name in ("sets_aside", "is_told"))
        return Problem(legible(document["reason"]), int(document["since_ms"]), sets_aside, is_told)
    except (CorruptData, KeyError, TypeError, ValueError) as error:
        return Problem(f"znode {path} does not say what is wrong ({type(error).__name__})", 0)


class TroubleStore:
    """What instances say of lanes that stand still, and of those that a quota holds back, by datastream
    group; it goes with their sessions."""

    def __init__(self, nodes: NodeStore) -> None:
        self._nodes = nodes

    def say(self, sequence: int, troubles: Mapping[GroupName, str]) -> None:
        """Which stand still, in place of what the instance of this sequence said before; the first groups by
        name, as many as a person reads."""
        self._say(f"{znodes.TROUBLES}/i-{sequence:010}", troubles)

    def say_held_back(self, sequence: int, quotas: Mapping[GroupName, str]) -> None:
        """Which a quota holds back, likewise."""
        self._say(f"{znodes.QUOTAS}/i-{sequence:010}", quotas)

    def _say(self, path: str, troubles: Mapping[GroupName, str]) -> None:
        if not troubles:
            self._nodes.delete(path)
            return
        chosen = sorted(troubles)[:_MOST_TROUBLES]
        data = znodes.encode({legible(group): legible(troubles[group]) for group in chosen})
        znodes.put(self._nodes, path, data, ephemeral=True)

    def all(self) -> Mapping[GroupName, str]:
        """By group, of one of the instances that have trouble with it."""
        return self._all(znodes.TROUBLES)

    def held_back(self) -> Mapping[GroupName, str]:
        """By group, of one of the instances where a quota holds it back."""
        return self._all(znodes.QUOTAS)

    def _all(self, folder: str) -> Mapping[GroupName, str]:
        found: dict[GroupName, str] = {}
        paths = [f"{folder}/{node}" for node in self._nodes.children(folder)]
        for path, node in self._nodes.read_present(paths).items():
            try:
                document = znodes.decode(node.data, path)
            except CorruptData as error:
                _log.warning("what an instance says cannot be read", reason=str(error))
                continue
            for group, reason in document.items():
                found.setdefault(GroupName(group), legible(str(reason)))
        return found
