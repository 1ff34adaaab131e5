"""Which instances are here, which of them leads, and what each still holds.

Every instance has one ephemeral sequential node; the lowest sequence leads, and each watches only
the node before its own to learn that it leads now. An instance that obeys a plan says so in its
holding, with the lanes that the plan took from it and that it has not yet released.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from mirror.coordination import znodes
from mirror.errors import AlreadyExists, CorruptData, NotFound
from mirror.model.identifiers import NO_EPOCH, Epoch, GroupName, InstanceName
from mirror.ports import LaneKey, NodeStore, Watch


@dataclass(frozen=True, slots=True)
class LiveInstance:
    """One running service. `sequence` orders by arrival; `weight` is its share of the work.

    `incarnation` differs between processes, also of one name on one host: by it a process knows its
    own node, although the answer to its creation was lost. `is_leaving`: it wants no tasks any more.
    """

    name: InstanceName
    sequence: int
    host: str
    process_id: int
    rest_address: str
    weight: float = 1.0
    incarnation: str = ""
    is_leaving: bool = False


@dataclass(frozen=True, slots=True)
class Holding:
    """What an instance says of itself: the newest epoch it obeys, lanes it is still releasing, and the
    groups of which it may run anything. It says so before it starts a lane."""

    epoch: Epoch = NO_EPOCH
    releasing: frozenset[LaneKey] = frozenset()
    groups: frozenset[GroupName] = frozenset()

    def has_given_up(self, key: LaneKey, epoch: Epoch) -> bool:
        """Whether a lane that this epoch gives to somebody else may be started there.

        Not by one that obeys a newer epoch: that may have given the lane back to it.
        """
        return key.group not in self.groups or (self.epoch == epoch and key not in self.releasing)


class Membership:
    """Live instances and their holdings in ZooKeeper. What a node says of an instance never changes, so
    it is read once."""

    def __init__(self, nodes: NodeStore) -> None:
        self._nodes = nodes
        self._known: dict[str, LiveInstance] = {}

    def join(self, instance: LiveInstance) -> LiveInstance:
        """Announce an instance, whose sequence is given here; the nodes go with its session."""
        document = asdict(instance)
        del document["sequence"], document["is_leaving"]
        path = self._nodes.create(
            f"{znodes.LIVE}/i-", znodes.encode(document), ephemeral=True, sequential=True
        )
        joined = replace(instance, sequence=_sequence(path))
        self.announce(joined, Holding())
        return joined

    def begin_to_leave(self, instance: LiveInstance) -> None:
        """Ask for all tasks to be taken away; may be repeated."""
        with contextlib.suppress(AlreadyExists):
            self._nodes.create(f"{znodes.LEAVING}/{_node(instance.sequence)}", ephemeral=True)

    def leave(self, instance: LiveInstance) -> None:
        """Withdraw an instance that has given up everything."""
        for folder in (znodes.HOLDINGS, znodes.LEAVING, znodes.LIVE):
            self._nodes.delete(f"{folder}/{_node(instance.sequence)}")

    def live(self, watch: Watch | None = None) -> tuple[LiveInstance, ...]:
        """Everybody here, in order of arrival; the watch fires when somebody comes, goes or wants to go."""
        present = self._nodes.children(znodes.LIVE, watch)
        leaving = set(self._nodes.children(znodes.LEAVING, watch))
        found = [self._instance(node) for node in present]
        return tuple(
            replace(one, is_leaving=True) if _node(one.sequence) in leaving else one
            for one in sorted(filter(None, found), key=lambda instance: instance.sequence)
        )

    def leader(self, sequence: int, watch: Watch | None = None) -> LiveInstance | None:
        """Who leads; None: nobody is here. Unless `sequence` itself leads, the watch fires when the
        instance before it goes, and for nobody else's coming and going."""
        while True:
            present = self._nodes.children(znodes.LIVE)
            before = [node for node in present if _sequence(node) < sequence]
            try:
                if before and watch is not None:
                    self._nodes.read(f"{znodes.LIVE}/{max(before)}", watch)
            except NotFound:
                continue  # gone between the two reads
            first = self._instance(min(present)) if present else None
            if first is not None or not present:
                return first

    def announce(self, instance: LiveInstance, holding: Holding) -> None:
        """Publish a holding; it goes with the session."""
        path = _holding_path(instance)
        data = znodes.encode(_holding_document(holding))
        try:
            self._nodes.write(path, data, self._nodes.read(path).version)
        except NotFound:
            self._nodes.create(path, data, ephemeral=True)

    def holding(self, instance: LiveInstance, watch: Watch | None = None) -> Holding | None:
        """None: the instance has not said anything, so it holds nothing yet."""
        path = _holding_path(instance)
        try:
            return _read_holding(znodes.decode(self._nodes.read(path, watch).data, path), path)
        except NotFound:
            return None

    def refresh(self) -> None:
        """Whatever anybody announced before this call is seen by the reads after it."""
        self._nodes.sync()

    def _instance(self, node: str) -> LiveInstance | None:
        """None: it left since its node was listed."""
        if node not in self._known:
            path = f"{znodes.LIVE}/{node}"
            try:
                document = znodes.decode(self._nodes.read(path).data, path)
            except NotFound:
                return None
            self._known[node] = _read_instance(_sequence(node), document, path)
        return self._known[node]


def _node(sequence: int) -> str:
    return f"i-{sequence:010}"


def _holding_path(instance: LiveInstance) -> str:
    # By sequence, not by name: a restarted process must not write into the node of its dead session.
    return f"{znodes.HOLDINGS}/{_node(instance.sequence)}"


def _sequence(path: str) -> int:
    return int(path[-10:])


def _holding_document(holding: Holding) -> dict[str, object]:
    groups: dict[str, list[LaneKey]] = {}
    for key in holding.releasing:
        groups.setdefault(key.group, []).append(key)
    releasing = {
        group: znodes.encode_partitions(key.partition for key in keys) for group, keys in groups.items()
    }
    return {"epoch": holding.epoch, "releasing": releasing, "groups": sorted(holding.groups)}


def _read_instance(sequence: int, document: Mapping[str, Any], path: str) -> LiveInstance:
    """Fields that are not known are left out: a newer version may have written them. Raises CorruptData."""
    known = {one.name for one in fields(LiveInstance)} - {"sequence", "is_leaving"}
    try:
        return LiveInstance(sequence=sequence, **{name: document[name] for name in known & document.keys()})
    except TypeError as error:
        raise CorruptData(f"znode {path} does not describe an instance: {error}") from error


def _read_holding(document: Mapping[str, Any], path: str) -> Holding:
    """Raises CorruptData."""
    try:
        return Holding(
            Epoch(document["epoch"]),
            frozenset(
                LaneKey(GroupName(group), partition)
                for group, ranges in document["releasing"].items()
                for partition in znodes.decode_partitions(ranges)
            ),
            frozenset(map(GroupName, document["groups"])),
        )
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise CorruptData(f"znode {path} does not say what an instance holds: {error}") from error
