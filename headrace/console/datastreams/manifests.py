"""Reads definition files for `headrace apply`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from headrace.console.documents import read_documents
from headrace.console.files import read_file, read_stdin
from mirror.errors import InvalidRequest

STDIN: Final = "-"
_SUFFIXES: Final = (".yaml", ".yml", ".json")
_MOST_BYTES: Final = 16 * 1024 * 1024
_STATE: Final = ("status", "problem", "pauses", "halt", "planning")
"""Fields of a GET response that are ignored, because they are not part of the definition."""


@dataclass(frozen=True)
class Manifest:
    """Definition of a datastream that a file contains.

    `where`: file and document number.
    """

    name: str
    where: str
    definition: dict[str, Any]


def read_manifests(paths: Sequence[str]) -> tuple[Manifest, ...]:
    """Read the definitions of datastreams from files, folders and stdin (`-`), in order.

    Raises InvalidRequest with all problems, and OSError.
    """
    found: dict[str, Manifest] = {}
    wrong: list[str] = []
    for path in paths:
        for where, document in documents_of(path):
            name = document.get("name") if isinstance(document, dict) else None
            if not isinstance(name, str) or not name.strip():
                wrong.append(f"{where} has no name")
            elif name.strip() in found:
                wrong.append(f"{name} is defined in both {found[name.strip()].where} and {where}")
            else:
                definition = {key: value for key, value in document.items() if key not in _STATE}
                found[name.strip()] = Manifest(name.strip(), where, definition)
    if wrong:
        raise InvalidRequest("; ".join(wrong), advice="each document must be one datastream with a name")
    if not found:
        raise InvalidRequest(f"no definition found in {', '.join(paths)}")
    return tuple(found.values())


def documents_of(path: str) -> Iterator[tuple[str, Any]]:
    """Yield each document in a file, a folder or stdin (`-`), with its location.

    Raises InvalidRequest, OSError.
    """
    for file in _files(path):
        text = read_stdin() if str(file) == STDIN else _text(file)
        documents = read_documents(text, str(file), is_json=file.suffix == ".json")
        for number, document in enumerate(documents, 1):
            yield (f"{file} document {number}" if len(documents) > 1 else str(file)), document


def _files(path: str) -> list[Path]:
    if not path:
        raise InvalidRequest("invalid file name ''")
    place = Path(path)
    if path == STDIN or not place.is_dir():
        return [place]
    return sorted(file for file in place.iterdir() if file.suffix in _SUFFIXES and file.is_file())


def _text(file: Path) -> str:
    if file.stat().st_size > _MOST_BYTES:
        raise InvalidRequest(f"{file} is larger than {_MOST_BYTES >> 20} MiB")
    return read_file(file)
