"""Content of a wheel: one import package, and the compiled data plane if it was built from these sources.

`HEADRACE_WHEEL=pure` omits the machine code. An isolated build (`pip install` of a source distribution) has
no compiler environment and makes a pure wheel, whose data plane is interpreted and reported as such.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

WINGS = ("api", "assigner", "mirror", "monitor", "pinot", "pmp")
EDITABLE = "editable"
SWITCH = "HEADRACE_WHEEL"
PURE = "pure"


class WheelHook(BuildHookInterface[Any]):
    """Build hook of hatchling, registered by `tool.hatch.build.targets.wheel.hooks.custom`."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Select the files and the tag."""
        if version == EDITABLE:
            return
        root = Path(self.root)
        included: dict[str, str] = build_data["force_include"]
        for wing in WINGS:
            included[str(root / wing)] = f"headrace/wings/{wing}"
        included[str(root / "deploy/wheel/installed_package.py")] = "headrace/__init__.py"
        if (compiled := self._compiled(root)) is not None:
            folder, name = compiled
            included[str(folder)] = f"headrace/compiled/{name}"
            build_data["pure_python"] = False
            build_data["infer_tag"] = True

    def _compiled(self, root: Path) -> tuple[Path, str] | None:
        """Return the machine code and its name in the wheel if it was built from exactly these sources."""
        if os.environ.get(SWITCH) == PURE:
            return None
        sys.path.insert(0, str(root))
        try:
            from headrace.process.machine_code import build_folder, installed_name, is_built
        finally:
            sys.path.remove(str(root))
        return (build_folder(root), installed_name(root)) if is_built(root) else None
