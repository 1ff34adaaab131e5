"""What people and the monitor ask of the leader, as a queue in ZooKeeper."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from mirror.coordination import znodes
from mirror.errors import NotFound
from mirror.model.identifiers import GroupName
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


class RequestQueue:
    """Requests that no leader has taken yet, oldest first."""

    def __init__(self, nodes: NodeStore) -> None:
        self._nodes = nodes

    def add(self, request: RebalanceRequest) -> str:
        """Returns the request's identity."""
        document = asdict(request)
        del document["identity"]
        path = self._nodes.create(f"{znodes.REQUESTS}/r-", znodes.encode(document), sequential=True)
        return path.rpartition("/")[2]

    def pending(self, watch: Watch | None = None) -> tuple[RebalanceRequest, ...]:
        """The watch fires when a request is added or taken."""
        requests = []
        for node in self._nodes.children(znodes.REQUESTS, watch):
            path = f"{znodes.REQUESTS}/{node}"
            try:
                document = znodes.decode(self._nodes.read(path).data, path)
            except NotFound:
                continue  # taken between the two reads
            requests.append(RebalanceRequest(identity=node, **document))
        return tuple(requests)

    def take(self, request: RebalanceRequest) -> None:
        """Remove a request that has been answered by a plan, or that cannot be."""
        self._nodes.delete(f"{znodes.REQUESTS}/{request.identity}")
