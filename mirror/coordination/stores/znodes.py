"""Paths below the service's root, and the bytes of what is stored there.

    /version                       format number; a newer one is refused
    /secret                        what only the instances know: by it they know each other
    /datastreams/<name>            definition (JSON)
    /creations/<key>               the datastream that a call with this key has created
    /deleted/<number>              which datastreams were deleted, by name; many share a node
    /lost/<name>                   definition that an instance knows and that is missing without a deletion
    /guards/<number>               counter of changes of the groups and owners that share it
    /live/i-<sequence>             ephemeral: who is here; the lowest sequence leads
    /leaving/i-<sequence>          ephemeral: who wants to go as soon as its tasks have moved
    /holdings/i-<sequence>         ephemeral: the newest epoch an instance obeys, what it still releases,
                                   and of which groups it may run anything
    /plan                          commit marker: epoch, reason, who departed, the names of all documents
    /plan/<group>/<epoch>-<writer>-…   what one instance runs of a group as of that epoch
    /requests/r-<sequence>         what people and the monitor ask of the leader
    /operations/o-<sequence>       what became of requests, stops and deletions in a day, by group
    /proposals/p-<sequence>        plans that were computed for somebody to look at, the newest of a group
    /events/e-<sequence>           what changed and why, the newest of each group
    /loads/<instance>/<chunk>      rates that the instance measured itself
    /costs/<instance>              what copying has cost there, by group and hour
    /observations/<cluster>        which observations of a source cluster's loads the leader keeps
    /observations/<cluster>/<time>-…   one of them
    /chosen-observations/<provider>:<cluster>   as /observations/<cluster>, of a load provider that
                                   datastreams choose
    /assessments/<group>           what the last planning of a group found
    /advice                        how many tasks and instances are needed
    /clusters/<name>               what a cluster calls itself that definitions call so
    /written/<name>                id of the only cluster that is read and written under that name
    /made/<group>                  destination topics that were made for a group of datastreams
    /adopted/<group>               destination topics that were there before it and that it writes
    /beginnings/<datastream>       which partitions it had when it was first planned, if it begins at the end
    /problems/<datastream>         why a datastream is set aside, and since when
    /troubles/i-<sequence>         ephemeral: why lanes of which groups stand still on an instance
    /quotas/i-<sequence>           ephemeral: which quota holds lanes of which groups back on an instance
    /monitor                       which monitor judges, whether it may act, what monitors did in a day

A znode holds 1 MiB, so what can grow is compressed JSON in chunks. What is listed often is read once,
and again when it changes (`Folder`).
"""

from __future__ import annotations

import hashlib
import json
import queue
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Generic, TypeVar
from urllib.parse import quote, unquote

import structlog

from mirror.errors import DamagedState, InvalidRequest, NotFound, SessionLost, Unreachable, reason_of
from mirror.model.bounds import LARGEST_PARTITION
from mirror.model.documents import LARGEST, parsed
from mirror.model.nodes import NewNode, NodeChange, NodeDeletion, NodeWrite
from mirror.model.topics import TopicPartition
from mirror.ports import NodeStore

_log = structlog.get_logger(__name__)
_T = TypeVar("_T")
_K = TypeVar("_K")
FORMAT: Final = 2
VERSION: Final = "/version"
SHARED_KEY: Final = "/secret"
DATASTREAMS: Final = "/datastreams"
CREATIONS: Final = "/creations"
DELETED: Final = "/deleted"
LOST: Final = "/lost"
GUARDS: Final = "/guards"
LIVE: Final = "/live"
LEAVING: Final = "/leaving"
HOLDINGS: Final = "/holdings"
PLAN: Final = "/plan"
REQUESTS: Final = "/requests"
OPERATIONS: Final = "/operations"
PROPOSALS: Final = "/proposals"
EVENTS: Final = "/events"
LOADS: Final = "/loads"
COSTS: Final = "/costs"
OBSERVATIONS: Final = "/observations"
CHOSEN_OBSERVATIONS: Final = "/chosen-observations"
ASSESSMENTS: Final = "/assessments"
ADVICE: Final = "/advice"
CLUSTERS: Final = "/clusters"
BOUND: Final = "/written"
MADE: Final = "/made"
ADOPTED: Final = "/adopted"
BEGINNINGS: Final = "/beginnings"
PROBLEMS: Final = "/problems"
TROUBLES: Final = "/troubles"
QUOTAS: Final = "/quotas"
ACTING: Final = "/monitor"

CHUNK_BYTES: Final = LARGEST
LARGEST_DOCUMENT: Final = 64 * 1024 * 1024
"""Bytes that a compressed document may open into: a million partitions take less."""
MOST_PARTITIONS: Final = 2_000_000
MOST_CHANGES: Final = 100
MOST_CHANGED_BYTES: Final = 256 * 1024
"""Of one transaction that changes what belongs to many; a server takes a request of 1 MiB."""
_SHORT: Final = 250


def child(parent: str, name: str) -> str:
    """Path of the node `name` (any text) below `parent`."""
    quoted = quote(name, safe=" ()[]{}!@$^&*+=,;:'~", errors="surrogatepass")
    return f"{parent}/{quoted.replace('.', '%2E') if quoted in {'.', '..'} else quoted}"


def short_child(parent: str, name: str) -> str:
    """As `child`, for names that nobody reads back: a long one, or one that is no text, is a digest."""
    if len(name) <= _SHORT and name.isprintable():
        return child(parent, name)
    return f"{parent}/{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()}"


@lru_cache(16_384)
def name_of(node: str) -> str:
    """The text that `child` made a node name of; a node name that `child` does not make stands for itself."""
    name = unquote(node)
    return name if child("", name) == f"/{node}" else node


def encode(value: Mapping[str, Any]) -> bytes:
    """Small documents stay readable. Raises InvalidRequest when it does not fit into a znode."""
    data = _json(value)
    if len(data) > CHUNK_BYTES:
        raise InvalidRequest(
            f"{len(data)} bytes are too much to store", advice=f"{CHUNK_BYTES} bytes are possible"
        )
    return data


def decode(data: bytes, path: str) -> dict[str, Any]:
    """A JSON object of which everything can be encoded again. Raises DamagedState that names the node."""
    try:
        value = parsed(data)
    except InvalidRequest as error:
        raise DamagedState(
            f"znode {path} does not hold JSON ({error.message})", advice="restore or delete it"
        ) from error
    if not isinstance(value, dict):
        raise DamagedState(f"znode {path} does not hold a JSON object", advice="restore or delete it")
    return value


def encode_chunks(value: Mapping[str, Any], chunk_bytes: int = CHUNK_BYTES) -> list[bytes]:
    """Documents that can grow, compressed and cut to znode size; at least one chunk."""
    packed = zlib.compress(_json(value), level=1)
    return [packed[start : start + chunk_bytes] for start in range(0, len(packed), chunk_bytes)]


def decode_chunks(chunks: Iterable[bytes], path: str) -> dict[str, Any]:
    """Raises DamagedState when chunks are missing or broken, or open into more than `LARGEST_DOCUMENT`."""
    inflater = zlib.decompressobj()
    try:
        data = inflater.decompress(b"".join(chunks), LARGEST_DOCUMENT)
    except zlib.error as error:
        raise DamagedState(f"znode {path} is incomplete or damaged") from error
    if not inflater.eof:
        raise DamagedState(f"znode {path} is incomplete or opens into more than {LARGEST_DOCUMENT} bytes")
    return decode(data, path)


def put(nodes: NodeStore, path: str, data: bytes, *, ephemeral: bool = False) -> None:
    """Write a znode that may not be there yet; `ephemeral` counts where it is made. Raises VersionConflict or
    AlreadyExists where somebody else writes it at the same time."""
    try:
        nodes.write(path, data, nodes.read(path).version)
    except NotFound:
        nodes.create(path, data, ephemeral=ephemeral)


def replacements(nodes: NodeStore, wanted: Mapping[str, bytes]) -> dict[str, tuple[NodeChange, ...]]:
    """By path, the changes after which znodes that may not be there yet hold this; none for one that does
    already. What is there is read at once."""
    present = nodes.read_present(list(wanted)) if wanted else {}
    found: dict[str, tuple[NodeChange, ...]] = {}
    for path, data in wanted.items():
        node = present.get(path)
        if node is None:
            found[path] = (NewNode(path, data),)
        else:
            found[path] = (NodeWrite(path, data, node.version),) if node.data != data else ()
    return found


def deletions(nodes: NodeStore, paths: Sequence[str]) -> dict[str, tuple[NodeChange, ...]]:
    """By path, the changes after which these znodes are gone."""
    present = nodes.read_present(paths) if paths else {}
    return {path: (NodeDeletion(path),) if path in present else () for path in paths}


def change_each(
    nodes: NodeStore,
    wanted: Mapping[_K, Sequence[NodeChange]],
    made: Callable[[Sequence[_K]], None],
    make_alone: Callable[[_K], None],
) -> None:
    """Make the changes of many in a few transactions; `made`: those of one are there. Of a transaction that
    fails nothing is there: `make_alone` then makes the changes of each of its keys, as for a key that is in a
    transaction of its own, and says what is wrong with it. Raises Unreachable, SessionLost, and what the
    callables raise.
    """
    for some in _batches(wanted):
        changes = [change for key in some for change in wanted[key]]
        if len(some) > 1 and _is_made(nodes, changes):
            made(some)
        else:
            for key in some:
                make_alone(key)


def _is_made(nodes: NodeStore, changes: Sequence[NodeChange]) -> bool:
    try:
        if changes:
            nodes.change_together(changes)
    except (Unreachable, SessionLost):
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is, each is tried alone, where it is noted
        _log.info("a transaction failed; its changes are made alone", reason=reason_of(error))
        return False
    return True


def _batches(wanted: Mapping[_K, Sequence[NodeChange]]) -> Iterator[list[_K]]:
    """Keys in their order, as many at a time as a transaction may have changes and bytes."""
    batch: list[_K] = []
    count = size = 0
    for key, changes in wanted.items():
        more = sum(0 if isinstance(one, NodeDeletion) else len(one.data) for one in changes)
        if batch and (count + len(changes) > MOST_CHANGES or size + more > MOST_CHANGED_BYTES):
            yield batch
            batch, count, size = [], 0, 0
        batch.append(key)
        count, size = count + len(changes), size + more
    if batch:
        yield batch


class Folder(Generic[_T]):
    """What the nodes right below one node say, of which only those are read again that have changed. For any
    thread. `meaning`: of a node's path and data; None: nothing."""

    def __init__(self, nodes: NodeStore, path: str, meaning: Callable[[str, bytes], _T | None]) -> None:
        self._nodes = nodes
        self._path = path
        self._meaning = meaning
        self._lock = threading.Lock()
        self._known: dict[str, _T | None] = {}
        self._changed: queue.SimpleQueue[str] = queue.SimpleQueue()

    def newest(self) -> dict[str, _T]:
        """By the name of the node, in their order. What others have changed just now may be missing."""
        with self._lock:
            names = self._nodes.children(self._path)
            while not self._changed.empty():
                self._known.pop(self._changed.get_nowait(), None)
            paths = {f"{self._path}/{name}": name for name in names if name not in self._known}
            watches = {path: _Noted(self._changed, name) for path, name in paths.items()}
            present = self._nodes.read_present(list(paths), watches.__getitem__) if paths else {}
            read = {paths[path]: self._meaning(path, node.data) for path, node in present.items()}
            self._known = {**self._known, **read}
            self._known = {name: self._known[name] for name in names if name in self._known}
            return {name: one for name, one in self._known.items() if one is not None}

    def changed(self, path: str) -> None:
        """The caller has written or removed this node: the next look reads it."""
        self._changed.put(path.rpartition("/")[2])


@dataclass(frozen=True, slots=True)
class _Noted:
    """A watch. Equal for the same node, so that it is left there once."""

    changed: queue.SimpleQueue[str]
    name: str

    def __call__(self) -> None:
        self.changed.put(self.name)


def encode_partitions(partitions: Iterable[TopicPartition]) -> dict[str, str]:
    """Partitions by topic as ranges: `{"orders": "0-3,7"}`."""
    by_topic: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        by_topic.setdefault(topic, []).append(number)
    return {topic: encode_ranges(numbers) for topic, numbers in by_topic.items()}


def decode_partitions(text: Mapping[str, str]) -> frozenset[TopicPartition]:
    """The inverse of `encode_partitions`. Raises ValueError, also for more than `MOST_PARTITIONS`."""
    found: set[TopicPartition] = set()
    for topic, ranges in text.items():
        found.update(TopicPartition(topic, number) for number in decode_ranges(ranges))
        if len(found) > MOST_PARTITIONS:
            raise ValueError(f"more than {MOST_PARTITIONS} partitions")
    return frozenset(found)


def _json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()


def encode_ranges(numbers: Iterable[int]) -> str:
    """Numbers, at least one, as `0-3,7`."""
    parts = []
    first, *others = sorted(numbers)
    last = first
    for number in [*others, None]:
        if number is not None and number == last + 1:
            last = number
            continue
        parts.append(str(first) if first == last else f"{first}-{last}")
        if number is not None:
            first = last = number
    return ",".join(parts)


def decode_ranges(ranges: str) -> Iterable[int]:
    """The inverse of `encode_ranges`. Raises ValueError, also for more numbers than `MOST_PARTITIONS`."""
    count = 0
    for part in ranges.split(","):
        first, _, last = part.partition("-")
        numbers = range(_partition(first), _partition(last or first) + 1)
        count += len(numbers)
        if count > MOST_PARTITIONS:
            raise ValueError(f"more than {MOST_PARTITIONS} partitions")
        yield from numbers


def _partition(text: str) -> int:
    is_number = text.isascii() and text.isdecimal() and len(text) <= len(str(LARGEST_PARTITION))
    if not is_number or int(text) > LARGEST_PARTITION:
        raise ValueError(f"{text[:20]!r} is no partition number")
    return int(text)
