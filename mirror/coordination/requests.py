"""What people and the monitor ask of the leader, as a queue in ZooKeeper."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from mirror.coordination import znodes
from mirror.errors import NotFound
from mirror.model.identifiers import GroupName
from mirror.model.topics import TopicPartition
from mirror.ports import NodeStore, Watch


@dataclass(frozen=True, slots=True)
class RebalanceRequest:
    """Plan one group anew. `full`: forget the placement; else repair what is overloaded.

    `identity` is given by the queue. `requested_by` and `reason` go into the events.
    """

    group: GroupName
    full: bool
    requested_by: str
    reason: str
    requested_ms: int
    identity: str = ""


@dataclass(frozen=True, slots=True)
class MoveRequest:
    """Bring partitions of one group to the instance `host`: its name, or the host that it runs on."""

    group: GroupName
    partitions: frozenset[TopicPartition]
    host: str
    requested_by: str
    requested_ms: int
    identity: str = ""

    @property
    def reason(self) -> str:
        """For the events."""
        return f"{len(self.partitions)} partitions to {self.host}"


Request = RebalanceRequest | MoveRequest


class RequestQueue:
    """Requests that no leader has taken yet, oldest first."""

    def __init__(self, nodes: NodeStore) -> None:
        self._nodes = nodes

    def add(self, request: Request) -> str:
        """Returns the request's identity."""
        path = self._nodes.create(f"{znodes.REQUESTS}/r-", znodes.encode(_document(request)), sequential=True)
        return path.rpartition("/")[2]

    def pending(self, watch: Watch | None = None) -> tuple[Request, ...]:
        """The watch fires when a request is added or taken."""
        requests: list[Request] = []
        for node in self._nodes.children(znodes.REQUESTS, watch):
            path = f"{znodes.REQUESTS}/{node}"
            try:
                document = znodes.decode(self._nodes.read(path).data, path)
            except NotFound:
                continue  # taken between the two reads
            requests.append(_request(node, document))
        return tuple(requests)

    def take(self, request: Request) -> None:
        """Remove a request that has been answered by a plan, or that cannot be."""
        self._nodes.delete(f"{znodes.REQUESTS}/{request.identity}")


def _document(request: Request) -> dict[str, Any]:
    document = asdict(request)
    del document["identity"]
    if isinstance(request, MoveRequest):
        document["partitions"] = znodes.encode_partitions(request.partitions)
    return document


def _request(identity: str, document: dict[str, Any]) -> Request:
    if "partitions" in document:
        partitions = znodes.decode_partitions(document.pop("partitions"))
        return MoveRequest(partitions=partitions, identity=identity, **document)
    return RebalanceRequest(identity=identity, **document)
