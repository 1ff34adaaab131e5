"""Metadata of Brooklin's that would mean nothing here: it is refused, with what to do instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mirror.errors import InvalidRequest

_NOT_SAID: Final = frozenset({"", "{}", "false"})
_INSTEAD: Final = {
    "system.start.position": "commit the offsets for its group.id (kafka-consumer-groups.sh --reset-offsets)"
    " and begin at committed, which is system.auto.offset.reset = committed here",
    "system.pausedSourcePartitions": "pause the partitions once it is there",
    "system.destination.encryptionRequired": "bytes are copied as they are; leave it out",
    "system.source.decryptionRequired": "bytes are copied as they are; leave it out",
}


def refuse_ignored(metadata: Mapping[str, str]) -> None:
    """Raises InvalidRequest for a key that asks for something which is not done."""
    for key, advice in _INSTEAD.items():
        if metadata.get(key, "").strip().lower() not in _NOT_SAID:
            raise InvalidRequest(f"metadata {key} is not followed", advice=advice)
