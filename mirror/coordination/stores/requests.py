"""Queue of requests from users and monitors to the leader."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

from mirror.bulkheads import Bulkhead
from mirror.coordination.stores import node_codec, znodes
from mirror.coordination.stores.record_folder import ChildrenCache
from mirror.errors import Busy, InvalidRequest, NotFound, VersionConflict
from mirror.model import bounds
from mirror.model.datastreams.datastream import check_name
from mirror.model.identifiers import GroupName
from mirror.model.nodes import NextNode, NodeChange, NodeDeletion, NodeWrite
from mirror.model.reasons import damage_of
from mirror.model.topics import TopicPartition, checked_topic
from mirror.ports import NodeStore, Watch
from mirror.wording import counted

MOST_PENDING: Final = 1_000
"""Maximum number of pending requests. Further requests are rejected until the leader has answered some."""

MOST_OF_GROUP: Final = 5
"""Maximum number of pending requests per group. A further request replaces the oldest."""

_ATTEMPTS: Final = 5

_READ_AT_ONCE: Final = 100
_LONGEST_HOST: Final = 500
_MOST_MOVED: Final = 10_000


@dataclass(frozen=True, slots=True)
class RebalanceRequest:
    """Request to plan one group again.

    `full`: ignore the current placement. If False, the planner only relieves overloads.

    `identity`: id that the queue assigns. `requested_by`, `reason`: shown in events. Raises InvalidRequest
    for values that cannot be stored or displayed.
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
    """Request to move partitions of one group to an instance.

    `host`: name or host of the instance.

    Raises InvalidRequest for values that cannot be stored or displayed.
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
                f"too many partitions in one request: {counted(len(self.partitions), 'partition')}",
                advice=f"the limit is {_MOST_MOVED}; use several requests",
            )

    @property
    def reason(self) -> str:
        """Text shown as reason in events: number of partitions and target."""
        return f"{counted(len(self.partitions), 'partition')} to {self.host}"


@dataclass(frozen=True, slots=True)
class ApplyRequest:
    """Request to publish a proposed plan unchanged.

    `proposal`: id of the plan. Raises InvalidRequest for values that cannot be stored or displayed.
    """

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
        """Text shown as reason in events."""
        return f"apply plan {self.proposal}"


@dataclass(frozen=True, slots=True)
class DamagedRequest:
    """Entry of the request queue that is not a valid request.

    `problem`: error that the leader returns for the entry.
    """

    identity: str
    problem: str
    group: GroupName
    requested_by: str = "unknown"
    reason: str = "unreadable request"


PlacementRequest = RebalanceRequest | MoveRequest | ApplyRequest
Request = PlacementRequest | DamagedRequest


def cause_of(request: Request) -> str:
    """Return a text with requester and reason of a request, for events."""
    return f"requested by {request.requested_by}" + (f": {request.reason}" if request.reason else "")


class RequestQueue:
    """Requests that the leader has not answered yet, oldest first."""

    def __init__(self, nodes: NodeStore) -> None:
        self._nodes = nodes
        self._folder: ChildrenCache[Request] = ChildrenCache(nodes, znodes.REQUESTS, _read_request)

    def add(
        self,
        request: PlacementRequest,
        superseded: Callable[[Request], Sequence[NextNode]] = lambda _: (),
        changes: Sequence[NodeWrite] = (),
    ) -> str:
        """Queue a request for the leader, and return its id.

        If a group has more than `MOST_OF_GROUP` requests, the oldest are dropped. `superseded`: returns the
        nodes that store the result of a dropped request. `changes`: further changes of the same transaction.
        Raises Busy if `MOST_PENDING` requests are pending; VersionConflict if a change fails.
        """
        entry = NextNode(f"{znodes.REQUESTS}/r-", node_codec.encode(to_document(request)))
        for _ in range(_ATTEMPTS):
            old = self._surplus(request.group)
            ends: list[NodeChange] = []
            for surplus in old:
                ends += [NodeDeletion(_path(surplus)), *superseded(surplus)]
            together = (*changes, *ends, entry)
            with contextlib.suppress(NotFound):  # the leader has taken one of them
                return self._nodes.change_together(together)[-1].rpartition("/")[2]
        raise VersionConflict("too many concurrent requests for this group", advice="retry the request")

    def _surplus(self, group: GroupName) -> list[Request]:
        """Return the oldest requests of the group, which a new request replaces. Raises Busy at the limit."""
        waiting = self._folder.newest()
        mine = [request for _, request in sorted(waiting.items()) if request.group == group]
        old = mine[: max(0, len(mine) - MOST_OF_GROUP + 1)]
        if len(self._nodes.children(znodes.REQUESTS)) - len(old) >= MOST_PENDING:
            raise Busy(
                f"{MOST_PENDING} requests are already pending",
                advice="retry later; GET /v1/health of the leader shows whether it processes requests",
            )
        return old

    def pending(self, watch: Watch | None = None) -> tuple[Request, ...]:
        """Return at most the 100 oldest pending requests.

        `watch`: fires when a request is added or removed. A damaged entry is returned as a DamagedRequest.
        """
        nodes = self._nodes.children(znodes.REQUESTS, watch)[:_READ_AT_ONCE]
        found = self._nodes.read_present([f"{znodes.REQUESTS}/{node}" for node in nodes])
        return tuple(_read_request(path, node.data) for path, node in found.items())

    def waiting(self) -> tuple[Request, ...]:
        """Return all pending requests, oldest first. Each node is read only once."""
        return tuple(self._folder.newest().values())

    def take(self, request: Request, entries: Sequence[NextNode] = ()) -> bool:
        """Remove a request from the queue after it was fulfilled or has failed.

        `entries`: nodes with the result, created in the same transaction. Returns False if another leader has
        already removed the request.
        """
        path = _path(request)
        while True:
            try:
                self._nodes.change_together((NodeDeletion(path), *entries))
            except NotFound:
                return False
            except VersionConflict:  # the node has children that are not ours
                for name in self._nodes.children(path):
                    self._nodes.delete_tree(f"{path}/{name}")
            else:
                return True


def _path(request: Request) -> str:
    return f"{znodes.REQUESTS}/{request.identity}"


def _read_request(path: str, data: bytes) -> Request:
    identity = path.rpartition("/")[2]
    with Bulkhead() as reading:
        return from_document(identity, node_codec.decode(data, path))
    assert reading.failure is not None
    return DamagedRequest(identity, damage_of(reading.failure), GroupName(""))


def to_document(request: PlacementRequest) -> dict[str, Any]:
    """Return a request as a JSON object, without its id."""
    document = asdict(request)
    del document["identity"]
    if isinstance(request, MoveRequest):
        document["partitions"] = node_codec.encode_partitions(request.partitions)
    return document


def from_document(identity: str, document: Mapping[str, Any]) -> PlacementRequest:
    """Parse a stored request. Unknown fields, which a newer version may have written, are ignored.

    Raises InvalidRequest.
    """
    kind: type[PlacementRequest] = MoveRequest if "partitions" in document else RebalanceRequest
    kind = ApplyRequest if "proposal" in document else kind
    names = [field.name for field in fields(kind) if field.name not in {"identity", "partitions"}]
    values = {name: bounds.field(document, name) for name in names}
    if kind is MoveRequest:
        values["partitions"] = _partitions(bounds.mapping("partitions", document["partitions"]))
    request: PlacementRequest = kind(identity=identity, **values)
    return request


def _partitions(document: Mapping[str, Any]) -> frozenset[TopicPartition]:
    for topic, ranges in document.items():
        checked_topic("the topic", topic)
        bounds.text("partitions", ranges, node_codec.CHUNK_BYTES)
    return node_codec.decode_partitions(document)


def _check_request(request: PlacementRequest) -> None:
    check_name(request.group, "a group of datastreams")
    bounds.text("requested_by", request.requested_by, bounds.LONGEST_NAME)
    bounds.integer("the time of a request", request.requested_ms, 0, bounds.LARGEST_MS)
