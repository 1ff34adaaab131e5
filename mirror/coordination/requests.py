"""What people and the monitor ask of the leader, as a queue in ZooKeeper."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any, Final

from mirror.coordination import znodes
from mirror.coordination.problems import legible, reason_of
from mirror.errors import CoordinationError, CorruptData, InvalidRequest, NotFound, Unreachable
from mirror.model.identifiers import GroupName
from mirror.model.topics import TopicPartition
from mirror.ports import NodeStore, Watch

MOST_PENDING: Final = 1_000
"""Requests that may wait; further ones are refused until the leader has answered some."""

_READ_AT_ONCE: Final = 100
_LONGEST_TEXT: Final = 500


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


@dataclass(frozen=True, slots=True)
class DamagedRequest:
    """What stands in the queue and is no request; it is answered by the `problem`."""

    identity: str
    problem: str
    group: GroupName
    requested_by: str = "somebody"
    reason: str = "what cannot be read"


Request = RebalanceRequest | MoveRequest | DamagedRequest


class RequestQueue:
    """Requests that no leader has taken yet, oldest first."""

    def __init__(self, nodes: NodeStore) -> None:
        self._nodes = nodes

    def add(self, request: RebalanceRequest | MoveRequest) -> str:
        """Returns the request's identity. Raises InvalidRequest when `MOST_PENDING` wait already."""
        if len(self._nodes.children(znodes.REQUESTS)) >= MOST_PENDING:
            raise InvalidRequest(
                f"{MOST_PENDING} requests wait for the leader already",
                advice="ask again later; GET /v1/health of the leader says whether it plans",
            )
        path = self._nodes.create(f"{znodes.REQUESTS}/r-", znodes.encode(_document(request)), sequential=True)
        return path.rpartition("/")[2]

    def pending(self, watch: Watch | None = None) -> tuple[Request, ...]:
        """The oldest, at most a hundred; the watch fires when a request is added or taken. Each is read by
        itself: one that is damaged is a DamagedRequest."""
        requests: list[Request] = []
        for node in self._nodes.children(znodes.REQUESTS, watch)[:_READ_AT_ONCE]:
            try:
                requests.append(self._read(node))
            except NotFound:
                continue  # taken between the two reads
            except (Unreachable, CoordinationError):
                raise
            except Exception as error:  # noqa: BLE001 - the bulkhead around one request
                requests.append(DamagedRequest(node, reason_of(error), GroupName("")))
        return tuple(requests)

    def _read(self, node: str) -> Request:
        path = f"{znodes.REQUESTS}/{node}"
        return _request(node, znodes.decode(self._nodes.read(path).data, path))

    def take(self, request: Request) -> None:
        """Remove a request that has been answered by a plan, or that cannot be."""
        self._nodes.delete_tree(f"{znodes.REQUESTS}/{request.identity}")


def _document(request: RebalanceRequest | MoveRequest) -> dict[str, Any]:
    document = asdict(request)
    del document["identity"]
    if isinstance(request, MoveRequest):
        document["partitions"] = znodes.encode_partitions(request.partitions)
    return document


def _request(identity: str, document: dict[str, Any]) -> Request:
    """Fields that are not known are left out: a newer version may have written them. Raises CorruptData."""
    kind = MoveRequest if "partitions" in document else RebalanceRequest
    values: dict[str, Any] = {"identity": identity}
    for field in fields(kind):
        if field.name == "partitions":
            values[field.name] = znodes.decode_partitions(document[field.name])
        elif field.name != "identity":
            values[field.name] = _checked(field.name, str(field.type), document.get(field.name))
    request: Request = kind(**values)
    return request


def _checked(name: str, kind: str, value: object) -> object:
    expected = {"bool": bool, "int": int}.get(kind, str)
    if type(value) is not expected:
        raise CorruptData(f"{name} of a request is {legible(repr(value), 100)}, not of the type {kind}")
    return legible(value, _LONGEST_TEXT) if isinstance(value, str) else value
