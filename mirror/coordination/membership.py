"""Which instances are here, which of them leads, and what each still holds.

Every instance has one ephemeral sequential node; the lowest sequence leads, and each watches only
the node before its own. An instance that obeys a plan says so in its holding, with the lanes that
the plan took from it and that it has not yet released.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from mirror.coordination import znodes
from mirror.errors import NotFound
from mirror.model.identifiers import NO_EPOCH, Epoch, GroupName, InstanceName
from mirror.ports import LaneKey, NodeStore, Watch


@dataclass(frozen=True, slots=True)
class LiveInstance:
    """One running service. `sequence` orders by arrival; `weight` is its share of the work.

    `incarnation` differs between processes, also of one name on one host: by it a process knows its
    own node, although the answer to its creation was lost.
    """

    name: InstanceName
    sequence: int
    host: str
    process_id: int
    rest_address: str
    weight: float = 1.0
    incarnation: str = ""


@dataclass(frozen=True, slots=True)
class Holding:
    """What an instance says of itself: the newest epoch it obeys, and lanes it is still releasing."""

    epoch: Epoch = NO_EPOCH
    releasing: frozenset[LaneKey] = frozenset()

    def has_given_up(self, key: LaneKey, epoch: Epoch) -> bool:
        """Whether a lane that this epoch gives to somebody else may be started there.

        Not by one that obeys a newer epoch: that may have given the lane back to it.
        """
        return self.epoch == epoch and key not in self.releasing


def leader_of(live: Sequence[LiveInstance]) -> LiveInstance | None:
    """The instance that arrived first."""
    return min(live, key=lambda instance: instance.sequence, default=None)


def predecessor_of(live: Sequence[LiveInstance], sequence: int) -> LiveInstance | None:
    """The one whose departure an instance must notice to know whether it leads."""
    before = [instance for instance in live if instance.sequence < sequence]
    return max(before, key=lambda instance: instance.sequence, default=None)


class Membership:
    """Live instances and their holdings in ZooKeeper."""

    def __init__(self, nodes: NodeStore) -> None:
        self._nodes = nodes

    def join(self, instance: LiveInstance) -> LiveInstance:
        """Announce an instance, whose sequence is given here; the nodes go with its session.

        From now on others wait for it to obey a plan: it must not have read one yet.
        """
        document = asdict(instance)
        del document["sequence"]
        path = self._nodes.create(
            f"{znodes.LIVE}/i-", znodes.encode(document), ephemeral=True, sequential=True
        )
        joined = replace(instance, sequence=_sequence(path))
        self.announce(joined, Holding())
        return joined

    def leave(self, instance: LiveInstance) -> None:
        """Withdraw an instance that has given up everything."""
        self._nodes.delete(_holding_path(instance))
        self._nodes.delete(f"{znodes.LIVE}/i-{instance.sequence:010}")

    def live(self, watch: Watch | None = None) -> tuple[LiveInstance, ...]:
        """Everybody here, in order of arrival; the watch fires when somebody comes or goes."""
        instances = []
        for node in self._nodes.children(znodes.LIVE, watch):
            path = f"{znodes.LIVE}/{node}"
            try:
                document = znodes.decode(self._nodes.read(path).data, path)
            except NotFound:
                continue  # left between the two reads
            instances.append(LiveInstance(sequence=_sequence(node), **document))
        return tuple(sorted(instances, key=lambda instance: instance.sequence))

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
            return _read_holding(znodes.decode(self._nodes.read(path, watch).data, path))
        except NotFound:
            return None


def _holding_path(instance: LiveInstance) -> str:
    # By sequence, not by name: a restarted process must not write into the node of its dead session.
    return f"{znodes.HOLDINGS}/i-{instance.sequence:010}"


def _sequence(path: str) -> int:
    return int(path[-10:])


def _holding_document(holding: Holding) -> dict[str, object]:
    groups: dict[str, list[LaneKey]] = {}
    for key in holding.releasing:
        groups.setdefault(key.group, []).append(key)
    releasing = {
        group: znodes.encode_partitions(key.partition for key in keys) for group, keys in groups.items()
    }
    return {"epoch": holding.epoch, "releasing": releasing}


def _read_holding(document: Mapping[str, object]) -> Holding:
    releasing = document["releasing"]
    epoch = document["epoch"]
    assert isinstance(releasing, dict)
    assert isinstance(epoch, int)
    return Holding(
        Epoch(epoch),
        frozenset(
            LaneKey(GroupName(group), partition)
            for group, ranges in releasing.items()
            for partition in znodes.decode_partitions(ranges)
        ),
    )
