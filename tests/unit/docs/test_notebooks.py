"""The stored notebooks: outputs, figures with titles and labels, and nothing that belongs to one machine."""

from __future__ import annotations

import ast
import importlib
import json
import re
from pathlib import Path
from typing import Any, Final

import pytest

from bench.pages.rig.figures import labels_of
from bench.pages.rig.outputs import MOST_BYTES, SVG, sources_sha256, stored, text_of

NOTEBOOKS: Final = sorted((Path(__file__).parents[3] / "notebooks").glob("*.ipynb"))
OWN: Final = ("api", "assigner", "bench", "headrace", "mirror", "monitor", "pinot", "pmp")
each_notebook = pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)


def read(file: Path) -> Any:
    return json.loads(file.read_text())


def figures_of(notebook: Any) -> list[str]:
    outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", ())]
    return ["".join(output["data"][SVG]) for output in outputs if SVG in output.get("data", {})]


def test_notebooks_are_numbered_without_a_gap() -> None:
    assert all(re.fullmatch(r"\d\d-[a-z-]+", file.stem) for file in NOTEBOOKS)
    assert [int(file.stem[:2]) for file in NOTEBOOKS] == list(range(1, len(NOTEBOOKS) + 1))


@each_notebook
def test_a_notebook_is_stored_with_the_outputs_of_its_code(file: Path) -> None:
    notebook = read(file)
    assert notebook["metadata"]["sources_sha256"] == sources_sha256(notebook["cells"]), "run `make notebooks`"
    assert figures_of(notebook)


@each_notebook
def test_a_notebook_has_the_form_in_which_it_is_stored(file: Path) -> None:
    notebook = read(file)
    for cell in notebook["cells"]:
        for output in cell.get("outputs", ()):
            if SVG in output.get("data", {}):
                without = re.sub(r"\n <title>.*?</title>", "", "".join(output["data"][SVG]), flags=re.DOTALL)
                output["data"][SVG] = without
    assert text_of(stored(notebook)) == file.read_text()
    assert file.stat().st_size <= MOST_BYTES


@each_notebook
def test_every_figure_has_a_title_and_labels(file: Path) -> None:
    assert [labels_of(svg).missing for svg in figures_of(read(file)) if labels_of(svg).missing] == []


@each_notebook
def test_every_name_that_a_notebook_imports_exists(file: Path) -> None:
    sources = ["".join(cell["source"]) for cell in read(file)["cells"] if cell["cell_type"] == "code"]
    text = "\n".join(re.sub(r"^%.*", "", source, flags=re.MULTILINE) for source in sources)
    code = compile(text, file.name, "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    missing = [
        f"{node.module}.{name.name}"
        for node in ast.walk(code)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] in OWN
        for name in node.names
        if not hasattr(importlib.import_module(node.module), name.name)
    ]
    assert missing == []
