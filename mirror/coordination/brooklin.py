"""Reads the ZooKeeper state of a Brooklin cluster for a migration.

    /<cluster>/dms/<name>             definition, JSON in the form of Brooklin's REST interface
    /<cluster>/liveinstances/<seq>    ephemeral; data is the host of a running instance
    /<cluster>/assignmentEnabled      `false`: its leader assigns nothing

Task numbers, assignments, tokens and locks are internal to Brooklin and are ignored.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mirror.coordination.stores import node_codec
from mirror.errors import CorruptData, InvalidRequest, NotFound
from mirror.model import bounds
from mirror.model.datastreams.metadata import GROUP_ID, TASK_PREFIX
from mirror.model.documents import parsed
from mirror.ports import NodeStore

DEFINITIONS: Final = "/dms"
LIVE: Final = "/liveinstances"
PAUSED_PARTITIONS: Final = "system.pausedSourcePartitions"


@dataclass(frozen=True, slots=True)
class BrooklinDatastream:
    """A datastream as stored by Brooklin.

    `group_id`: consumer group under which its offsets are committed.
    """

    name: str
    document: Mapping[str, Any]
    group_id: str

    @property
    def status(self) -> str:
        """Status of the Brooklin datastream, such as READY, PAUSED or STOPPED."""
        return str(self.document.get("Status", "READY"))

    @property
    def metadata(self) -> Mapping[str, str]:
        """Metadata of the Brooklin datastream. All values are strings, as in Headrace."""
        return self.document["metadata"]  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class BrooklinCluster:
    """Definitions and live instances of a Brooklin cluster, as read from ZooKeeper.

    `unreadable`: reason for each definition that cannot be parsed, by name. `live`: hosts of running
    instances.
    """

    datastreams: tuple[BrooklinDatastream, ...]
    unreadable: Mapping[str, str]
    live: tuple[str, ...]


def read_brooklin(nodes: NodeStore, hashing_cluster: str = "") -> BrooklinCluster:
    """Read the definitions and live instances of a Brooklin cluster, sorted by name.

    The root of `nodes` must be the root of the Brooklin cluster.

    `hashing_cluster`: name of the Brooklin cluster, empty unless `isGroupIdHashingEnabled` was on. Raises
    NotFound if there are no Brooklin datastreams.
    """
    documents: dict[str, dict[str, Any]] = {}
    unreadable: dict[str, str] = {}
    names = nodes.children(DEFINITIONS)
    if not names:
        raise NotFound("no Brooklin datastreams found", advice="check the name of the Brooklin cluster")
    for name in names:
        try:
            documents[name] = _read_one(nodes, name)
        except CorruptData as error:
            unreadable[name] = error.message
        except NotFound:
            continue  # deleted since the names were listed
    groups = group_ids({name: document["metadata"] for name, document in documents.items()}, hashing_cluster)
    found = tuple(
        BrooklinDatastream(name.strip(), document, groups[name]) for name, document in documents.items()
    )
    return BrooklinCluster(found, unreadable, _live(nodes))


def group_ids(metadata: Mapping[str, Mapping[str, str]], hashing_cluster: str = "") -> dict[str, str]:
    """Map each Brooklin datastream to its consumer group.

    Brooklin uses the first of these that exists: the group in the metadata; the group of a datastream with
    the same task prefix; the hashed task prefix; the name of the datastream.

    The hash is `<cluster>.` and the lower-case MD5 of the task prefix in UTF-8 (KafkaMirrorMaker connector,
    `isGroupIdHashingEnabled`). The committed offsets are found only under this hash.
    """
    of_prefix = {
        values.get(TASK_PREFIX) or name: values[GROUP_ID]
        for name, values in sorted(metadata.items(), reverse=True)
        if values.get(GROUP_ID)
    }
    found = {}
    for name, values in metadata.items():
        prefix = values.get(TASK_PREFIX) or name
        digest = hashlib.md5(prefix.encode(), usedforsecurity=False).hexdigest()
        constructed = f"{hashing_cluster}.{digest}" if hashing_cluster else name
        found[name] = values.get(GROUP_ID) or of_prefix.get(prefix) or constructed
    return found


def paused_partitions(metadata: Mapping[str, str]) -> dict[str, frozenset[int] | None]:
    """Return the manually paused partitions of each topic; None means all of them. Raises InvalidRequest."""
    text = metadata.get(PAUSED_PARTITIONS, "")
    if not text:
        return {}
    try:
        paused = bounds.mapping(PAUSED_PARTITIONS, parsed(text.encode()))
        return {topic: _numbers(numbers) for topic, numbers in paused.items() if numbers}
    except (InvalidRequest, ValueError, TypeError) as error:
        raise InvalidRequest(f"{PAUSED_PARTITIONS} is not a JSON map of topics to partitions") from error


def _numbers(texts: Sequence[object]) -> frozenset[int] | None:
    if isinstance(texts, str):
        raise TypeError(texts)
    numbers = {str(text) for text in texts}
    if "*" in numbers:
        return None
    return frozenset(bounds.digits("a partition", number, 0, bounds.LARGEST_PARTITION) for number in numbers)


def _read_one(nodes: NodeStore, name: str) -> dict[str, Any]:
    path = f"{DEFINITIONS}/{name}"
    document = node_codec.decode(nodes.read(path).data, path)
    metadata = document.get("metadata")
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise CorruptData(f"znode {path} does not contain a Brooklin datastream")
    if str(document.get("name", name)).strip() != name.strip():
        raise CorruptData(f"znode {path} contains a datastream with a different name")
    return document


def _live(nodes: NodeStore) -> tuple[str, ...]:
    hosts = []
    for node in nodes.children(LIVE):
        try:
            hosts.append(nodes.read(f"{LIVE}/{node}").data.decode(errors="replace") or node)
        except NotFound:
            continue  # removed since it was listed
    return tuple(sorted(hosts))
