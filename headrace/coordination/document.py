"""JSON document with the state of a service and a checksum, for moving the state between stores. Pure."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from mirror.errors import CorruptData, NewerFormat

FORMAT: Final = 1
_KIND: Final = "headrace-state"
_ADVICE: Final = "repeat headrace state export"


@dataclass(frozen=True)
class ExportedState:
    """State of a service: the data at each path of its coordination store.

    `next_numbers`: next sequential number by path of the parent. `store`: description of the exported store.
    """

    nodes: Mapping[str, bytes]
    next_numbers: Mapping[str, int] = field(default_factory=dict)
    store: str = ""
    exported_at_ms: int = 0


def to_document(state: ExportedState) -> bytes:
    """Serialize the exported state of a service."""
    content = {
        "store": state.store,
        "exported_at_ms": state.exported_at_ms,
        "next_numbers": dict(state.next_numbers),
        "nodes": {path: _encoded(data) for path, data in sorted(state.nodes.items())},
    }
    document = {"kind": _KIND, "format": FORMAT, "sha256": _checksum(content), "content": content}
    return json.dumps(document, indent=1, ensure_ascii=False).encode() + b"\n"


def from_document(data: bytes, place: str) -> ExportedState:
    """Parse an export of a service's state. Raises CorruptData, NewerFormat. `place`: location of the
    document, for errors."""
    try:
        document = json.loads(data)
        _check(document, place)
        content = document["content"]
        return ExportedState(
            {path: _decoded(node) for path, node in content["nodes"].items()},
            {path: int(number) for path, number in content["next_numbers"].items()},
            content["store"],
            content["exported_at_ms"],
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptData(f"{place} is not an export of headrace state export", advice=_ADVICE) from error


def _check(document: Mapping[str, Any], place: str) -> None:
    """Check format, checksum and version of an export. Raises CorruptData, NewerFormat, KeyError,
    TypeError."""
    if document["kind"] != _KIND:
        raise CorruptData(f"{place} is not an export of headrace state export", advice=_ADVICE)
    if document["format"] > FORMAT:
        raise NewerFormat(
            f"{place} has format {document['format']}, this version supports up to {FORMAT}",
            advice="import it with the version that exported it, or a newer one",
        )
    if document["sha256"] != _checksum(document["content"]):
        raise CorruptData(f"{place} does not match its checksum", advice=_ADVICE)


def _checksum(content: Mapping[str, Any]) -> str:
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def _encoded(data: bytes) -> dict[str, str]:
    try:
        return {"text": data.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _decoded(value: Mapping[str, str]) -> bytes:
    if "text" in value:
        return value["text"].encode()
    try:
        return base64.b64decode(value["base64"], validate=True)
    except binascii.Error as error:
        raise ValueError(value) from error
