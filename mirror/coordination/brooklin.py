"""What a Brooklin cluster keeps in ZooKeeper, as far as taking it over needs it. Reads only.

Definitions lie in `/<cluster>/dms/<name>` as JSON in the form of Brooklin's REST interface. Numbers of
tasks, assignments and locks below and beside them are of no use to anybody else and are left alone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from mirror.coordination import znodes
from mirror.errors import CorruptData, InvalidRequest, NotFound
from mirror.model.datastream import GROUP_ID, TASK_PREFIX
from mirror.ports import NodeStore

DEFINITIONS: Final = "/dms"
PAUSED_PARTITIONS: Final = "system.pausedSourcePartitions"


@dataclass(frozen=True, slots=True)
class BrooklinDatastream:
    """One definition as Brooklin stored it. `group_id`: the consumer group that has its offsets."""

    name: str
    document: Mapping[str, Any]
    group_id: str

    @property
    def status(self) -> str:
        """READY, PAUSED, STOPPED …"""
        return str(self.document.get("Status", "READY"))


def read_brooklin(nodes: NodeStore, hashing_cluster: str = "") -> tuple[BrooklinDatastream, ...]:
    """Every definition below the store's root (the Brooklin cluster's), by name.

    `hashing_cluster`: name of the Brooklin cluster where `isGroupIdHashingEnabled` was on, else
    empty. Raises NotFound when nothing there looks like Brooklin, CorruptData.
    """
    names = nodes.children(DEFINITIONS)
    if not names:
        raise NotFound("there is no Brooklin datastream there", advice="is the root /<brooklin cluster>?")
    return tuple(_read_one(nodes, name, hashing_cluster) for name in names)


def group_id_of(name: str, metadata: Mapping[str, str], hashing_cluster: str = "") -> str:
    """Brooklin's rule: the one in the metadata, else the hashed task prefix, else the name.

    The hash is `<cluster>.` and the lower-case MD5 of the task prefix in UTF-8 (KafkaMirrorMaker
    connector, `isGroupIdHashingEnabled`); it must stay MD5, or committed offsets are not found.
    """
    if metadata.get(GROUP_ID):
        return metadata[GROUP_ID]
    if hashing_cluster:
        prefix = metadata.get(TASK_PREFIX) or name
        return f"{hashing_cluster}.{hashlib.md5(prefix.encode(), usedforsecurity=False).hexdigest()}"
    return name


def paused_partitions(metadata: Mapping[str, str]) -> dict[str, frozenset[str]]:
    """Manual pauses by topic: partition numbers as text, or `*`. Raises InvalidRequest."""
    text = metadata.get(PAUSED_PARTITIONS, "")
    if not text:
        return {}
    try:
        pauses = json.loads(text)
        return {topic: frozenset(map(str, numbers)) for topic, numbers in pauses.items()}
    except (ValueError, AttributeError, TypeError) as error:
        raise InvalidRequest(f"{PAUSED_PARTITIONS} is not a JSON map of topics to partitions") from error


def _read_one(nodes: NodeStore, name: str, hashing_cluster: str) -> BrooklinDatastream:
    path = f"{DEFINITIONS}/{name}"
    document = znodes.decode(nodes.read(path).data, path)
    metadata = document.get("metadata")
    if not isinstance(metadata, dict):
        raise CorruptData(f"znode {path} holds no Brooklin datastream")
    return BrooklinDatastream(
        str(document.get("name", name)), document, group_id_of(name, metadata, hashing_cluster)
    )
