"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

ConfigOption = Annotated[
    Path | None, typer.Option("--config", "-c", help="TOML file with the settings.", show_default=False)
]
JsonOption = Annotated[bool, typer.Option("--json", help="Answer in JSON.")]
AtOption = Annotated[
    str, typer.Option("--at", help="host:port of an instance's REST; default: from the settings.")
]
