"""Figures of notebooks are checked, and outputs are stored without anything that differs between two runs."""

from __future__ import annotations

from typing import Any

import pytest

from bench.pages.rig.figures import labels_of
from bench.pages.rig.outputs import MOST_BYTES, SVG, Unfit, stored


def axes(
    number: int = 1, *, title: str = "Load", x: str = "Time", y: str = "kB/s", height: float = 10
) -> str:
    """A pair of axes as matplotlib writes it, whose frame begins at 20."""

    def text(content: str, at: float) -> str:
        return f'<g id="text_9"><text transform="translate(5 {at})">{content}</text></g>' if content else ""

    return (
        f'<g id="axes_{number}"><g id="patch_2"><path d="M 1 99 L 80 99 L 80 20 L 1 20 z"/></g>'
        f'<g id="matplotlib.axis_{2 * number - 1}"><g id="xtick_1">{text("0", 105)}</g>{text(x, 110)}</g>'
        f'<g id="matplotlib.axis_{2 * number}">{text(y, 50)}</g>{text(title, height)}</g>'
    )


def drawing(*parts: str) -> str:
    inside = "".join(parts)
    return f'<svg xmlns="http://www.w3.org/2000/svg"><g id="figure_1">{inside}</g></svg>'


def test_the_title_of_the_only_axes_is_that_of_the_figure() -> None:
    found = labels_of(drawing(axes()))
    assert found.title == "Load"
    assert found.axes == (("Load", "Time", "kB/s"),)
    assert found.missing == []


@pytest.mark.parametrize("text", ["title", "x", "y"])
def test_a_missing_text_is_named(text: str) -> None:
    given: dict[str, Any] = {text: ""}
    assert any(text in one for one in labels_of(drawing(axes(**given))).missing)


def test_a_text_within_the_frame_is_no_title() -> None:
    assert labels_of(drawing(axes(height=60))).title == ""


def test_two_axes_need_a_title_of_the_figure() -> None:
    both = axes(1), axes(2)
    assert labels_of(drawing(*both)).missing == ["title of the figure"]
    title = '<g id="text_1"><text y="3">Før &amp; nå</text></g>'
    assert labels_of(drawing(*both, title)).title == "Før & nå"


def test_a_drawing_without_axes_is_no_figure() -> None:
    assert "axes" in labels_of(drawing()).missing


def code_cell(*outputs: dict[str, Any]) -> dict[str, Any]:
    return {
        "cell_type": "code",
        "id": "a",
        "metadata": {"execution": {"iopub.execute_input": "2026-01-01"}},
        "source": "1\n2",
        "execution_count": 7,
        "outputs": list(outputs),
    }


def figure(svg: str) -> dict[str, Any]:
    return {"output_type": "display_data", "metadata": {}, "data": {SVG: svg, "text/plain": "<Figure>"}}


def printed(text: str, name: str = "stdout") -> dict[str, Any]:
    return {"output_type": "stream", "name": name, "text": text}


def test_what_differs_between_two_runs_is_not_stored() -> None:
    svg = drawing(axes(title="A &lt; B")).replace("<g", "<metadata><date>now</date></metadata><g", 1)
    notebook = {"cells": [code_cell(printed("a\n"), printed("b\n"), figure(f"<?xml?>\n{svg}"))]}
    (cell,) = stored(notebook)["cells"]
    assert (cell["execution_count"], cell["metadata"], cell["source"]) == (None, {}, ["1\n", "2"])
    stream, drawn = cell["outputs"]
    assert stream["text"] == ["a\n", "b\n"]
    assert list(drawn["data"]) == [SVG]
    kept = "".join(drawn["data"][SVG])
    assert kept.startswith("<svg")
    assert "<title>A &lt; B</title>" in kept
    assert "metadata" not in kept


def test_the_styles_of_tables_are_not_stored() -> None:
    html = "<div>\n<style scoped>\n th {}\n</style>\n<table><tr><td>1</td></tr></table></div>"
    output = {
        "output_type": "execute_result",
        "execution_count": 3,
        "metadata": {},
        "data": {"text/html": html},
    }
    (kept,) = stored({"cells": [code_cell(output)]})["cells"][0]["outputs"]
    assert "style" not in "".join(kept["data"]["text/html"])
    assert kept["execution_count"] is None


@pytest.mark.parametrize(
    "output",
    [
        {"output_type": "error", "ename": "ValueError", "evalue": "no", "traceback": []},
        printed("DeprecationWarning\n", "stderr"),
        printed("written to /home/someone/loads.csv\n"),
        printed("C:\\Users\\someone"),
        printed("x" * MOST_BYTES),
        figure(drawing(axes(x=""))),
    ],
    ids=["error", "warning", "path", "windows", "size", "label"],
)
def test_unfit_outputs_are_refused(output: dict[str, Any]) -> None:
    with pytest.raises(Unfit):
        stored({"cells": [code_cell(output)]})


def test_units_are_no_paths() -> None:
    stored({"cells": [code_cell(printed("7 kB/s and orders/0, 1/2/3, max/mean\n"))]})
