"""What people and the monitor ask of the leader, as a queue in ZooKeeper."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

from mirror.coordination.stores import znodes
from mirror.errors import Busy, InvalidRequest, NotFound, VersionConflict, damage_of
from mirror.model import bounds
from mirror.model.datastreams.datastream import check_name
from mirror.model.identifiers import GroupName
from mirror.model.nodes import NextNode, NodeChange, NodeDeletion, NodeWrite
from mirror.model.topics import TopicPartition, checked_topic
from mirror.ports import NodeStore, Watch
from mirror.wording import counted

MOST_PENDING: Final = 1_000
"""Requests that may wait; further ones are refused until the leader has answered some."""

MOST_OF_GROUP: Final = 5
"""Requests of one group that may wait; a further one replaces the oldest."""

_ATTEMPTS: Final = 5

_READ_AT_ONCE: Final = 100
_LONGEST_HOST: Final = 500
_MOST_MOVED: Final = 10_000


@dataclass(frozen=True, slots=True)
class RebalanceRequest:
    """Plan one group again. `full`: forget the placement; else repair what is overloaded.

    `identity` is given by the queue. `requested_by` and `reason` go into the events. Raises InvalidRequest
    for what cannot be stored and told.
    """

    group: GroupName
    full: bool
    requested_by: str
    reason: str
    requested_ms: int
    identity: str = ""

    def __post_init__(self) -> None:
        _check_request(self)
        bounds.flag("full", self.full)
        bounds.text("the reason", self.reason, bounds.LONGEST_REASON)


@dataclass(frozen=True, slots=True)
class MoveRequest:
    """Bring partitions of one group to the instance `host`: its name, or the host that it runs on.

    Raises InvalidRequest for what cannot be stored and told.
    """

    group: GroupName
    partitions: frozenset[TopicPartition]
    host: str
    requested_by: str
    requested_ms: int
    identity: str = ""

    def __post_init__(self) -> None:
        _check_request(self)
        bounds.line("the instance", self.host, _LONGEST_HOST)
        if len(self.partitions) > _MOST_MOVED:
            raise InvalidRequest(
                f"{counted(len(self.partitions), 'partition')} in one request",
                advice=f"{_MOST_MOVED} are possible",
            )

    @property
    def reason(self) -> str:
        """For the events."""
        return f"{counted(len(self.partitions), 'partition')} to {self.host}"


@dataclass(frozen=True, slots=True)
class ApplyRequest:
    """Put the plan `proposal` (an id) in force as it is. Raises InvalidRequest for what cannot be stored and
    told."""

    group: GroupName
    proposal: str
    requested_by: str
    requested_ms: int
    identity: str = ""

    def __post_init__(self) -> None:
        _check_request(self)
        bounds.line("the plan", self.proposal)

    @property
    def reason(self) -> str:
        """For the events."""
        return f"apply plan {self.proposal}"


@dataclass(frozen=True, slots=True)
class DamagedRequest:
    """What stands in the queue and is no request; it is answered by the `problem`."""

    identity: str
    problem: str
    group: GroupName
    requested_by: str = "somebody"
    reason: str = "what cannot be read"


PlacementRequest = RebalanceRequest | MoveRequest | ApplyRequest
Request = PlacementRequest | DamagedRequest


def cause_of(request: Request) -> str:
    """For the events: who asked, and why as far as that was given."""
    return f"{request.requested_by} asked" + (f": {request.reason}" if request.reason else "")


class RequestQueue:
    """Requests that no leader has taken yet, oldest first."""

    def __init__(self, nodes: NodeStore) -> None:
        self._nodes = nodes
        self._folder: znodes.Folder[Request] = znodes.Folder(nodes, znodes.REQUESTS, _read_request)

    def add(
        self,
        request: PlacementRequest,
        superseded: Callable[[Request], Sequence[NextNode]] = lambda _: (),
        changes: Sequence[NodeWrite] = (),
    ) -> str:
        """Returns the request's identity. Beyond `MOST_OF_GROUP` of its group the oldest gives way.
        `superseded`: what stores the outcome of that one; `changes`: what else is changed with it, all or
        nothing. Raises Busy when `MOST_PENDING` wait already, VersionConflict where a change fails."""
        entry = NextNode(f"{znodes.REQUESTS}/r-", znodes.encode(_document(request)))
        for _ in range(_ATTEMPTS):
            old = self._surplus(request.group)
            ends: list[NodeChange] = []
            for one in old:
                ends += [NodeDeletion(_path(one)), *superseded(one)]
            together = (*changes, *ends, entry)
            with contextlib.suppress(NotFound):  # the leader has taken one of them
                return self._nodes.change_together(together)[-1].rpartition("/")[2]
        raise VersionConflict("the requests of this group change all the time", advice="ask again")

    def _surplus(self, group: GroupName) -> list[Request]:
        """Return the requests that give way to a further one of a group. Raises Busy."""
        waiting = self._folder.newest()
        mine = [one for _, one in sorted(waiting.items()) if one.group == group]
        old = mine[: max(0, len(mine) - MOST_OF_GROUP + 1)]
        if len(self._nodes.children(znodes.REQUESTS)) - len(old) >= MOST_PENDING:
            raise Busy(
                f"{MOST_PENDING} requests wait for the leader already",
                advice="ask again later; GET /v1/health of the leader says whether it plans",
            )
        return old

    def pending(self, watch: Watch | None = None) -> tuple[Request, ...]:
        """The oldest, at most a hundred; the watch fires when a request is added or taken. Each is read by
        itself: one that is damaged is a DamagedRequest."""
        nodes = self._nodes.children(znodes.REQUESTS, watch)[:_READ_AT_ONCE]
        found = self._nodes.read_present([f"{znodes.REQUESTS}/{node}" for node in nodes])
        return tuple(_read_request(path, node.data) for path, node in found.items())

    def waiting(self) -> tuple[Request, ...]:
        """All of them, in their order; none is read twice."""
        return tuple(self._folder.newest().values())

    def take(self, request: Request, entries: Sequence[NextNode] = ()) -> bool:
        """Remove a request that has been answered by a plan, or that cannot be. `entries`: what says so;
        all or nothing is stored. False: another leader has done so."""
        path = _path(request)
        while True:
            try:
                self._nodes.change_together((NodeDeletion(path), *entries))
            except NotFound:
                return False
            except VersionConflict:  # somebody has put something below it
                for name in self._nodes.children(path):
                    self._nodes.delete_tree(f"{path}/{name}")
            else:
                return True


def _path(request: Request) -> str:
    return f"{znodes.REQUESTS}/{request.identity}"


def _read_request(path: str, data: bytes) -> Request:
    identity = path.rpartition("/")[2]
    try:
        return _request(identity, znodes.decode(data, path))
    except Exception as error:  # noqa: BLE001 - the bulkhead around one request
        return DamagedRequest(identity, damage_of(error), GroupName(""))


def _document(request: PlacementRequest) -> dict[str, Any]:
    document = asdict(request)
    del document["identity"]
    if isinstance(request, MoveRequest):
        document["partitions"] = znodes.encode_partitions(request.partitions)
    return document


def _request(identity: str, document: Mapping[str, Any]) -> Request:
    """Fields that are not known are left alone: a newer version may have written them.

    Raises InvalidRequest.
    """
    kind: type[PlacementRequest] = MoveRequest if "partitions" in document else RebalanceRequest
    kind = ApplyRequest if "proposal" in document else kind
    names = [one.name for one in fields(kind) if one.name not in {"identity", "partitions"}]
    values = {name: bounds.field(document, name) for name in names}
    if kind is MoveRequest:
        values["partitions"] = _partitions(bounds.mapping("partitions", document["partitions"]))
    request: Request = kind(identity=identity, **values)
    return request


def _partitions(document: Mapping[str, Any]) -> frozenset[TopicPartition]:
    for topic, ranges in document.items():
        checked_topic("the topic", topic)
        bounds.text("partitions", ranges, znodes.CHUNK_BYTES)
    return znodes.decode_partitions(document)


def _check_request(request: PlacementRequest) -> None:
    check_name(request.group, "a group of datastreams")
    bounds.text("requested_by", request.requested_by, bounds.LONGEST_NAME)
    bounds.integer("the moment of a request", request.requested_ms, 0, bounds.LARGEST_MS)
