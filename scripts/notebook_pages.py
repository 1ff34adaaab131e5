"""MkDocs hook (`hooks` in mkdocs.yml) that adds a page for each notebook with its stored outputs.

Each `notebooks/NAME.ipynb` becomes the page `notebooks/NAME.md` and one SVG file for each figure. The pages are
plain Markdown, so that MkDocs checks their links and the theme renders code and tables as on all other pages.
Nothing is executed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from html import unescape
from pathlib import Path
from textwrap import indent
from typing import Any, NamedTuple

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

FOLDER = "notebooks"
_SVG = "image/svg+xml"
_MAGIC = re.compile(r"^%.*\n*", re.MULTILINE)
_LINK = re.compile(rf"\]\(\.\./((?:\.\./)*){FOLDER}/([\w-]+)\.ipynb(#[^)\s]*)?\)")
_TABLE = re.compile(r"<table.*</table>", re.DOTALL)
_ATTRIBUTES = re.compile(r"<(table|tr|th|td)\b[^>]*?((?: (?:row|col)span=\"\d+\")*)[^>]*>")
_TITLE = re.compile(r"<title>(.*?)</title>", re.DOTALL)
_FENCE = re.compile(r"^(`{3,})", re.MULTILINE)


class NotebookPage(NamedTuple):
    """A notebook converted to Markdown. `figures`: maps file names to SVG."""

    markdown: str
    figures: dict[str, str]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page and its figures for each notebook beside the folder of the documentation."""
    for file in sorted((Path(config.docs_dir).parent / FOLDER).glob("*.ipynb")):
        page = page_of(json.loads(file.read_text(encoding="utf-8")), file.stem)
        files.append(File.generated(config, f"{FOLDER}/{file.stem}.md", content=page.markdown))
        for name, svg in page.figures.items():
            files.append(File.generated(config, f"{FOLDER}/{name}", content=svg))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Change the links to notebooks in a page, so that they lead to the pages of the notebooks instead of the
    files."""
    return _LINK.sub(rf"](\1{FOLDER}/\2.md\3)", markdown)


def page_of(notebook: Mapping[str, Any], name: str) -> NotebookPage:
    """Return a notebook and its stored outputs as a page. `name`: name of the file, without `.ipynb`."""
    parts: list[str] = []
    figures: dict[str, str] = {}
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source.replace("](../docs/", "](../"))
        elif cell["cell_type"] == "code":
            code = _fenced("python", _MAGIC.sub("", source))
            has_figure = any(_SVG in output.get("data", {}) for output in cell["outputs"])
            parts.append(_folded("Code of the figure", code) if has_figure else code)
            parts += _outputs(cell["outputs"], name, figures)
    parts.insert(1, f"*Stored outputs of the notebook `{FOLDER}/{name}.ipynb`; [run it](index.md).*")
    return NotebookPage("\n\n".join(parts) + "\n", figures)


def _outputs(outputs: list[Mapping[str, Any]], name: str, figures: dict[str, str]) -> Iterator[str]:
    for output in outputs:
        data = output.get("data", {})
        if output["output_type"] == "stream":
            yield _fenced("text", "".join(output["text"]))
        elif _SVG in data:
            svg = "".join(data[_SVG])
            file = f"{name}-{len(figures) + 1}.svg"
            figures[file] = svg
            title = _TITLE.search(svg)
            yield f"![{_alt(unescape(title[1]) if title else '')}]({file})"
        elif "text/html" in data and (table := _TABLE.search("".join(data["text/html"]))):
            yield _ATTRIBUTES.sub(r"<\1\2>", table[0])
        elif "text/plain" in data:
            yield _fenced("text", "".join(data["text/plain"]))


def _alt(text: str) -> str:
    return re.sub(r"([\\\[\]])", r"\\\1", " ".join(text.split()))


def _folded(title: str, markdown: str) -> str:
    """Return a block that is hidden until the reader clicks on it (`pymdownx.details`)."""
    return f'??? quote "{title}"\n\n{indent(markdown, "    ")}'


def _fenced(language: str, text: str) -> str:
    longest = max((len(fence) for fence in _FENCE.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"
