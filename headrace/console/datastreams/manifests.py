"""Files of definitions: what `headrace apply` reads."""

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
"""What the answer of a GET has beside the definition, which is not applied."""


@dataclass(frozen=True)
class Manifest:
    """One definition as a file has it, without the state that `get` shows. `where` names file and number."""

    name: str
    where: str
    definition: dict[str, Any]


def read_manifests(paths: Sequence[str]) -> tuple[Manifest, ...]:
    """The definitions of files, of folders' files and of `-`, in order. Raises InvalidRequest with everything
    that is wrong, OSError."""
    found: dict[str, Manifest] = {}
    wrong: list[str] = []
    for path in paths:
        for where, document in documents_of(path):
            name = document.get("name") if isinstance(document, dict) else None
            if not isinstance(name, str) or not name.strip():
                wrong.append(f"{where} has no name")
            elif name.strip() in found:
                wrong.append(f"{name} is in {found[name.strip()].where} and in {where}")
            else:
                definition = {key: value for key, value in document.items() if key not in _STATE}
                found[name.strip()] = Manifest(name.strip(), where, definition)
    if wrong:
        raise InvalidRequest("; ".join(wrong), advice="each document is one datastream, and has its name")
    if not found:
        raise InvalidRequest(f"there is no definition in {', '.join(paths)}")
    return tuple(found.values())


def documents_of(path: str) -> Iterator[tuple[str, Any]]:
    """The documents of a file, of a folder's files or of `-`, each with where it is. Raises InvalidRequest,
    OSError."""
    for file in _files(path):
        text = read_stdin() if str(file) == STDIN else _text(file)
        documents = read_documents(text, str(file), is_json=file.suffix == ".json")
        for number, document in enumerate(documents, 1):
            yield (f"{file} document {number}" if len(documents) > 1 else str(file)), document


def _files(path: str) -> list[Path]:
    if not path:
        raise InvalidRequest("'' names no file or folder")
    place = Path(path)
    if path == STDIN or not place.is_dir():
        return [place]
    return sorted(file for file in place.iterdir() if file.suffix in _SUFFIXES and file.is_file())


def _text(file: Path) -> str:
    if file.stat().st_size > _MOST_BYTES:
        raise InvalidRequest(f"{file} is larger than {_MOST_BYTES >> 20} MiB")
    return read_file(file)
