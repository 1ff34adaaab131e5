"""Files of the pages, read once, each with its media type, ETag and compressed form."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Final

FOLDER: Final = Path(__file__).with_name("static")
INDEX: Final = "index.html"
_TYPES: Final[Mapping[str, str]] = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
"""Types of served files; licences and notes in the folder are not served."""


@dataclass(frozen=True, slots=True)
class PageFile:
    """One file. `etag`: fingerprint of its content."""

    media_type: str
    content: bytes
    compressed: bytes
    etag: str


@cache
def page_files() -> Mapping[str, PageFile]:
    """Return the files by path relative to the folder, with `/` as separator."""
    found = {}
    for path in sorted(FOLDER.rglob("*")):
        if path.suffix in _TYPES:
            content = path.read_bytes()
            found[path.relative_to(FOLDER).as_posix()] = PageFile(
                _TYPES[path.suffix],
                content,
                gzip.compress(content, mtime=0),
                f'"{hashlib.sha256(content).hexdigest()[:32]}"',
            )
    return MappingProxyType(found)
