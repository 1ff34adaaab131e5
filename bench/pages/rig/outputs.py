"""Stored form of notebooks: outputs without run-specific content. Pure."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from typing import Any, Final

from bench.pages.rig.figures import labels_of

MOST_BYTES: Final = 300_000
SVG: Final = "image/svg+xml"
KEPT: Final = ("text/plain", "text/html", SVG)
"""MIME types that are stored."""
_METADATA: Final = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
_ABSOLUTE_PATH: Final = re.compile(r"(?:^|[\s\"'(=])(?:/[\w.-]+){2,}|[A-Za-z]:\\")
_PROLOGUE: Final = re.compile(r"^.*?(?=<svg)|<metadata>.*?</metadata>\s*", re.DOTALL)
_STYLE: Final = re.compile(r"<style.*?</style>\s*", re.DOTALL)
_SVG_TAG: Final = re.compile(r"<svg[^>]*>")


class Unfit(ValueError):
    """Notebook outputs that must not be stored; the text names the cell and the reason."""


def stored(notebook: Mapping[str, Any]) -> dict[str, Any]:
    """Return an executed notebook in the form in which it is stored.

    `sources_sha256` in its metadata is the hash of the code that gave the outputs. Raises Unfit if a cell
    failed, wrote to stderr or printed an absolute path, if a figure lacks a title or a label, or if the
    notebook is too large.
    """
    cells = [dict(cell) for cell in notebook["cells"]]
    for number, cell in enumerate(cells):
        cell["metadata"] = {}
        cell["source"] = lines_of(cell["source"])
        if cell["cell_type"] == "code":
            cell["execution_count"] = None
            cell["outputs"] = [_output(number, output) for output in _joined(cell["outputs"])]
    metadata = {**_METADATA, "sources_sha256": sources_sha256(cells)}
    found = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    if len(text_of(found).encode()) > MOST_BYTES:
        raise Unfit(f"the notebook exceeds {MOST_BYTES:,} bytes")
    return found


def text_of(notebook: Mapping[str, Any]) -> str:
    """Return the content of a notebook file."""
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def sources_sha256(cells: Iterable[Mapping[str, Any]]) -> str:
    """Return the hash of all code cells."""
    sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    return hashlib.sha256(json.dumps(sources).encode()).hexdigest()


def lines_of(text: str | list[str]) -> list[str]:
    """Return a text as the list of lines that nbformat stores."""
    return "".join(text).splitlines(keepends=True)


def _joined(outputs: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the outputs of a cell, with the parts of one stream joined, because a kernel splits them by
    time."""
    last: dict[str, Any] | None = None
    for output in outputs:
        if last is not None and output["output_type"] == "stream" and output["name"] == last["name"]:
            last["text"] += "".join(output["text"])
            continue
        if last is not None:
            yield last
        last = None
        if output["output_type"] == "stream":
            last = {**output, "text": "".join(output["text"])}
        else:
            yield dict(output)
    if last is not None:
        yield last


def _output(number: int, output: Mapping[str, Any]) -> dict[str, Any]:
    kind = output["output_type"]
    if kind == "error":
        raise Unfit(f"cell {number} failed: {output['ename']}: {output['evalue']}")
    if kind == "stream":
        if output["name"] != "stdout":
            raise Unfit(f"cell {number} wrote to {output['name']}: {output['text'][:200]}")
        return {"name": "stdout", "output_type": kind, "text": lines_of(_checked(number, output["text"]))}
    data = {mime: _data(number, mime, output["data"][mime]) for mime in KEPT if mime in output["data"]}
    if SVG in data:
        data.pop("text/plain", None)
    found: dict[str, Any] = {"data": data, "metadata": {}, "output_type": kind}
    return found | {"execution_count": None} if kind == "execute_result" else found


def _data(number: int, mime: str, value: str | list[str]) -> list[str]:
    text = "".join(value)
    if mime == SVG:
        return lines_of(_figure(number, text))
    return lines_of(_checked(number, _STYLE.sub("", text) if mime == "text/html" else text))


def _figure(number: int, svg: str) -> str:
    """Return an SVG figure without the date and version of its writer, and with its title as an element."""
    plain = _PROLOGUE.sub("", svg)
    labels = labels_of(plain)
    if labels.missing:
        raise Unfit(f"the figure of cell {number} lacks: {', '.join(labels.missing)}")
    return _SVG_TAG.sub(lambda tag: f"{tag[0]}\n <title>{escape(labels.title)}</title>", plain, count=1)


def _checked(number: int, text: str) -> str:
    if found := _ABSOLUTE_PATH.search(text):
        raise Unfit(f"cell {number} printed an absolute path: {found[0].strip()}")
    return text
