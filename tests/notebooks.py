"""Notebooks of the repository, run in separate kernels."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tests.patience import PATIENCE_SECONDS

NOTEBOOKS: Final = Path(__file__).parents[1] / "notebooks"


def _read(notebook: Path) -> Any:
    import nbformat  # takes two seconds, which every process that collects tests would spend

    read: Callable[..., Any] = nbformat.read
    return read(notebook, as_version=4)


def cells_of(notebook: Path) -> list[Any]:
    """Return the stored cells."""
    return list(_read(notebook).cells)


def executed(notebook: Path, environment: Mapping[str, str]) -> list[Any]:
    """Run a notebook in its folder and return the cells.

    The kernel gets these variables and none of the machine's settings. Raises CellExecutionError with the
    trace.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings of the client's libraries; the kernel is another process
        from nbclient import NotebookClient

        found = _read(notebook)
        plain = {name: value for name, value in os.environ.items() if not name.startswith("HEADRACE_")}
        NotebookClient(
            found,
            timeout=int(PATIENCE_SECONDS),
            kernel_name="python3",
            resources={"metadata": {"path": str(NOTEBOOKS)}},
        ).execute(env=plain | {"PYTHONPATH": str(NOTEBOOKS.parent)} | dict(environment))
    return list(found.cells)


def outputs_of(cells: Sequence[Any], kind: str) -> list[str]:
    """Return every output of a MIME type, including printed text for `text/plain`."""
    found = []
    for cell in cells:
        for output in cell.get("outputs", ()):
            if kind == "text/plain" and output["output_type"] == "stream":
                found.append(output["text"])
            elif kind in output.get("data", {}):
                found.append(output["data"][kind])
    return found
