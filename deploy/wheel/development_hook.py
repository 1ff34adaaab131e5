"""Content of the wheel of `headrace-dev`: its package, and `stack/` among the packages of an installed
Headrace, which `import headrace` puts on the path.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

EDITABLE = "editable"


class DevelopmentHook(BuildHookInterface[Any]):
    """Build hook of hatchling, registered in `headrace_dev/pyproject.toml`."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Select the files."""
        if version == EDITABLE:
            return
        included: dict[str, str] = build_data["force_include"]
        own = Path(self.root)
        for file in own.rglob("*.py"):
            included[str(file)] = f"{own.name}/{file.relative_to(own)}"
        included[str(own.parent / "stack")] = "headrace/wings/stack"
