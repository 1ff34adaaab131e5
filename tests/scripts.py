"""Scripts loaded as modules."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Final

FOLDER: Final = Path(__file__).parents[1] / "scripts"


def module_of(file: Path) -> ModuleType:
    """Load a script from its file."""
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
