"""Live instances, their leader, and the lanes that each instance may still run.

Every instance has one ephemeral sequential node. The instance with the lowest sequence number is the leader.
Each instance watches only the node before its own. The holding of an instance contains the epoch of the plan
that it follows, and the lanes that it must release but still runs.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from mirror.coordination.stores import node_codec, znodes
from mirror.errors import AlreadyExists, DamagedState, InvalidRequest, NotFound, SessionLost
from mirror.loggers import get_logger
from mirror.model import bounds
from mirror.model.datastreams.lanes import LaneKey
from mirror.model.identifiers import NO_EPOCH, Epoch, GroupName, InstanceName
from mirror.ports import NodeStore, Watch

_log = get_logger(__name__)
_NODE: Final = re.compile(r"i-[0-9]{10}")
_LONGEST: Final = 1_000
_MOST_GROUPS: Final = 100_000


@dataclass(frozen=True, slots=True)
class LiveInstance:
    """A running instance.

    `sequence`: order of arrival. `weight`: share of the work. `incarnation`: unique to the process, which
    recognises its node by this value if the response to the creation was lost. `is_leaving`: the instance
    must not get new tasks.
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
    """Lanes that an instance may still run (its holding).

    Contains the latest plan epoch that the instance follows, the lanes that it is still releasing, and the
    groups whose lanes it may run. An instance publishes its holding before it starts a lane.

    `is_unreadable`: the holding cannot be parsed. The instance may then run any lane until its session ends
    or the deadline has passed.
    """

    epoch: Epoch = NO_EPOCH
    releasing: frozenset[LaneKey] = frozenset()
    groups: frozenset[GroupName] = frozenset()
    is_unreadable: bool = False

    def has_given_up(self, key: LaneKey, epoch: Epoch) -> bool:
        """Return whether another instance may start this lane under its own plan epoch. Returns False if this
        instance follows a newer epoch, which may have assigned the lane to it again."""
        if self.is_unreadable:
            return False
        return key.group not in self.groups or (self.epoch == epoch and key not in self.releasing)


_MAY_HOLD_ANYTHING: Final = Holding(is_unreadable=True)


_OWN: Final = (znodes.TROUBLES, znodes.QUOTAS, znodes.NO_TOPICS, znodes.HOLDINGS, znodes.LEAVING, znodes.LIVE)
"""Parents of an instance's nodes. The instance has left when its nodes below them are deleted."""


class Membership:
    """Live instances and their holdings in the coordination store. Thread-safe.

    The node of an instance never changes, so it is read only once.
    """

    def __init__(self, nodes: NodeStore) -> None:
        self._nodes = nodes
        self._known: dict[str, LiveInstance] = {}

    def join(self, instance: LiveInstance) -> LiveInstance:
        """Register an instance, and return it with its sequence number.

        The nodes of an instance are deleted when the session ends.
        """
        document = asdict(instance)
        del document["sequence"], document["is_leaving"]
        path = self._nodes.create(
            f"{znodes.LIVE}/i-", node_codec.encode(document), ephemeral=True, sequential=True
        )
        joined = replace(instance, sequence=_sequence(path))
        self._known[_node(joined.sequence)] = joined
        self.announce(joined, Holding())
        return joined

    def invalidate(self) -> None:
        """Drop the cached instances: a store that lost its data restarts sequence numbers at 0."""
        self._known = {}

    def require(self, instance: LiveInstance, watch: Watch) -> None:
        """Check that the node of an instance exists. Raises SessionLost if the node is missing.

        The node can be missing although the session is alive: an operator may have deleted it, and another
        instance may now have its sequence number. `watch`: fires when the node is deleted.
        """
        path = f"{znodes.LIVE}/{_node(instance.sequence)}"
        lost = SessionLost(f"the node of instance {instance.name} was deleted")
        try:
            node = self._nodes.read(path, watch)
        except NotFound as error:
            raise lost from error
        with contextlib.suppress(DamagedState):  # a damaged node still proves membership
            if node_codec.decode(node.data, path).get("incarnation") != instance.incarnation:
                raise lost

    def begin_to_leave(self, instance: LiveInstance) -> None:
        """Request the leader to move all tasks of the instance to other instances. Idempotent."""
        with contextlib.suppress(AlreadyExists):
            self._nodes.create(f"{znodes.LEAVING}/{_node(instance.sequence)}", ephemeral=True)

    def leave(self, instance: LiveInstance) -> None:
        """Deregister an instance that has released all lanes: delete all nodes with its sequence number.

        The session may stay open.
        """
        for folder in _OWN:
            self._nodes.delete(f"{folder}/{_node(instance.sequence)}")

    def live(self, watch: Watch | None = None) -> tuple[LiveInstance, ...]:
        """Return all live instances in order of arrival.

        `watch`: fires when an instance joins, leaves or starts to leave.

        An instance with an unreadable node is included while its holding exists, but receives no lanes.
        """
        present = self._present(watch)
        leaving = set(self._nodes.children(znodes.LEAVING, watch))
        found = []
        for node in present:
            with contextlib.suppress(NotFound):  # the instance has left since its node was listed
                found.append(self._instance(node))
        return tuple(
            replace(instance, is_leaving=True) if _node(instance.sequence) in leaving else instance
            for instance in found
            if instance is not None
        )

    def leader(self, sequence: int, watch: Watch | None = None) -> LiveInstance | None:
        """Return the live instance that is the leader, or None if there are no instances.

        `watch`: if another instance is the leader, fires only when the node before `sequence` is deleted.
        """
        while True:
            try:
                here = [instance for instance in map(self._instance, self._present()) if instance is not None]
                before = [instance for instance in here if instance.sequence < sequence]
                if before and watch is not None:
                    self._nodes.read(f"{znodes.LIVE}/{_node(before[-1].sequence)}", watch)
            except NotFound:
                continue  # gone between the two reads
            return here[0] if here else None

    def announce(self, instance: LiveInstance, holding: Holding) -> None:
        """Publish the lanes that an instance may still run, in a node that is deleted with the session."""
        path = _holding_path(instance)
        data = node_codec.encode_compact(_holding_document(holding))
        znodes.put(self._nodes, path, data, ephemeral=True)

    def holding(self, instance: LiveInstance, watch: Watch | None = None) -> Holding | None:
        """Return the holding that an instance has published.

        None means that the instance has not published a holding, and therefore runs no lanes yet.
        """
        path = _holding_path(instance)
        try:
            return _read_holding(node_codec.decode_compact(self._nodes.read(path, watch).data, path))
        except NotFound:
            return None
        except (DamagedState, InvalidRequest) as error:
            _log.error("cannot read lanes held by an instance", instance=instance.name, reason=str(error))
            return _MAY_HOLD_ANYTHING

    def refresh(self) -> None:
        """Ensure that later reads include everything published before this call."""
        self._nodes.sync()

    def _present(self, watch: Watch | None = None) -> list[str]:
        """Return the nodes of instances in order of arrival.

        Deleted nodes are dropped from the cache, because another instance can get the same sequence number if
        the parent node was deleted.
        """
        present = [node for node in self._nodes.children(znodes.LIVE, watch) if _NODE.fullmatch(node)]
        known = self._known  # another thread may replace it
        self._known = {node: known[node] for node in present if node in known}
        return present

    def _instance(self, node: str) -> LiveInstance | None:
        """Return an instance, or None if its node is unreadable and it has no holding.

        Raises NotFound if the instance has left since its node was listed.
        """
        if (known := self._known.get(node)) is not None:
            return known
        path = f"{znodes.LIVE}/{node}"
        data = self._nodes.read(path).data
        try:
            found = _read_instance(_sequence(node), node_codec.decode(data, path))
        except (DamagedState, InvalidRequest) as error:
            _log.error("cannot read the node of an instance", node=node, reason=str(error))
            return self._unreadable(node)
        self._known[node] = found
        return found

    def _unreadable(self, node: str) -> LiveInstance | None:
        """Return a placeholder for an unreadable instance if it has a holding, otherwise None."""
        unreadable = LiveInstance(
            InstanceName(f"{node} (unreadable)"), _sequence(node), "", 0, "", is_leaving=True
        )
        try:
            self._nodes.read(_holding_path(unreadable))
        except NotFound:
            return None
        return unreadable


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
        group: node_codec.encode_partitions(key.partition for key in keys) for group, keys in groups.items()
    }
    return {"epoch": holding.epoch, "releasing": releasing, "groups": sorted(holding.groups)}


def _read_instance(sequence: int, document: Mapping[str, Any]) -> LiveInstance:
    """Parse the node of a live instance. Raises InvalidRequest.

    Unknown fields, which a newer version may have written, are ignored.
    """
    return LiveInstance(
        name=InstanceName(bounds.line("the name", bounds.field(document, "name"), _LONGEST)),
        sequence=sequence,
        host=bounds.text("the host", bounds.field(document, "host"), _LONGEST),
        process_id=bounds.integer("the process", bounds.field(document, "process_id"), 0, 2**63),
        rest_address=bounds.text("the address", bounds.field(document, "rest_address"), _LONGEST),
        weight=bounds.number("the weight", document.get("weight", 1.0), 1e-6, 1e6),
        incarnation=bounds.text("the incarnation", document.get("incarnation", ""), _LONGEST),
    )


def _read_holding(document: Mapping[str, Any]) -> Holding:
    """Parse the node with an instance's holding. Raises InvalidRequest."""
    releasing: set[LaneKey] = set()
    for group, ranges in bounds.mapping("releasing", bounds.field(document, "releasing")).items():
        for topic, text in bounds.mapping("releasing", ranges).items():
            bounds.text(f"partitions of {topic}", text, node_codec.CHUNK_BYTES)
        try:
            partitions = node_codec.decode_partitions(ranges)
        except ValueError as error:
            raise InvalidRequest(str(error)) from error
        releasing.update(LaneKey(GroupName(group), partition) for partition in partitions)
    groups = bounds.sequence("groups", bounds.field(document, "groups"), _MOST_GROUPS)
    return Holding(
        Epoch(bounds.integer("the epoch", bounds.field(document, "epoch"), 0, 2**63)),
        frozenset(releasing),
        frozenset(GroupName(bounds.text("a group", group, node_codec.CHUNK_BYTES)) for group in groups),
    )
