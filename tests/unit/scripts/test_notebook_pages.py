"""The pages that the documentation shows of the notebooks."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest

from tests.scripts import FOLDER, module_of

ROOT: Final = Path(__file__).parents[3]
NOTEBOOKS: Final = sorted((ROOT / "notebooks").glob("*.ipynb"))


@pytest.fixture(scope="module")
def pages() -> ModuleType:
    """The hook as MkDocs loads it: from its file."""
    return module_of(FOLDER / "notebook_pages.py")


def cell(source: str, *outputs: dict[str, Any], kind: str = "code") -> dict[str, Any]:
    return {"cell_type": kind, "source": source.splitlines(keepends=True), "outputs": list(outputs)}


def notebook(*cells: dict[str, Any]) -> dict[str, Any]:
    return {"cells": [cell("# Title", kind="markdown"), *cells]}


def shown(mime: str, text: str) -> dict[str, Any]:
    return {"output_type": "display_data", "data": {mime: [text]}}


def test_code_texts_and_figures_become_markdown(pages: ModuleType) -> None:
    svg = "<svg><title>Load &lt; 1 [kB/s]</title></svg>"
    page = pages.page_of(
        notebook(
            cell('import numpy\n\n%config InlineBackend.figure_formats = ["svg"]\nprint(1)'),
            cell("1", {"output_type": "stream", "text": ["1\n", "2\n"]}, shown("image/svg+xml", svg)),
        ),
        "07-x",
    )
    assert page.figures == {"07-x-1.svg": svg}
    assert "```python\nimport numpy\n\nprint(1)\n```" in page.markdown
    assert "```text\n1\n2\n```" in page.markdown
    assert '??? quote "Code of the figure"\n\n    ```python\n    1\n    ```\n' in page.markdown
    assert "![Load < 1 \\[kB/s\\]](07-x-1.svg)" in page.markdown
    assert page.markdown.startswith("# Title\n")


def test_links_to_the_documentation_are_links_between_its_pages(pages: ModuleType) -> None:
    page = pages.page_of(notebook(cell("[a](../docs/placement/figures.md)", kind="markdown")), "07-x")
    assert "[a](../placement/figures.md)" in page.markdown


@pytest.mark.parametrize(
    ("link", "page"),
    [
        ("[a](../notebooks/07-x.ipynb)", "[a](notebooks/07-x.md)"),
        ("[a](../../notebooks/07-x.ipynb#b) c", "[a](../notebooks/07-x.md#b) c"),
        ("[a](notebooks/07-x.ipynb)", "[a](notebooks/07-x.ipynb)"),
        ("`../notebooks/07-x.ipynb`", "`../notebooks/07-x.ipynb`"),
    ],
)
def test_links_to_notebooks_lead_to_their_pages(pages: ModuleType, link: str, page: str) -> None:
    assert pages.on_page_markdown(link, page=None, config=None, files=None) == page


def test_a_table_keeps_its_spans_and_nothing_else(pages: ModuleType) -> None:
    row = '<tr style="x"><th rowspan="2" valign="top">1</th></tr>'
    html = f'<div>\n<table border="1" class="dataframe">\n{row}</table></div>'
    page = pages.page_of(notebook(cell("1", shown("text/html", html))), "07-x")
    assert '<table>\n<tr><th rowspan="2">1</th></tr></table>' in page.markdown
    assert "<div" not in page.markdown


def test_a_fence_within_an_output_ends_no_block(pages: ModuleType) -> None:
    page = pages.page_of(
        notebook(cell("1", {"output_type": "stream", "text": ["```\n# no title\n"]})), "07-x"
    )
    assert "````text\n```\n# no title\n````" in page.markdown


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_every_notebook_is_a_page_in_the_navigation(pages: ModuleType, file: Path) -> None:
    page = pages.page_of(json.loads(file.read_text()), file.stem)
    assert page.figures
    assert f"notebooks/{file.stem}.md" in (ROOT / "mkdocs.yml").read_text()
    assert f"](../../notebooks/{file.stem}.ipynb)" in (ROOT / "docs" / "notebooks" / "index.md").read_text()
