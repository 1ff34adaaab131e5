"""`headrace state …`: move the state of a service from one coordination store to another."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.commands.options import ConfigOption, JsonOption
from headrace.console.option_groups import CommandGroup
from headrace.console.terminal import console, print_json
from mirror.wording import counted

if TYPE_CHECKING:
    from headrace.coordination.document import ExportedState

app = CommandGroup(no_args_is_help=True)


@app.command("export")
def export_state(
    file: Annotated[Path, typer.Argument(help="New file for the state (JSON).")],
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write the state of a stopped service to a file.

    Reads the configured coordination store. The file contains the secret of the service and is readable only
    by its owner.
    """
    from headrace.coordination.client import connected, store_name
    from headrace.coordination.document import to_document
    from headrace.coordination.transfer import exported
    from headrace.dr.state_store import exported_with_pairs
    from headrace.settings import load_settings
    from mirror.adapters.system_clock import SystemClock
    from mirror.errors import AlreadyExists
    from mirror.files import replace_file

    settings = load_settings(config)
    if file.exists():
        raise AlreadyExists(f"{file} already exists", advice="choose another file")
    with connected(settings, "headrace state export") as nodes:
        state = exported(nodes, store_name(settings), SystemClock().now_ms())
    state = exported_with_pairs(settings, state)
    replace_file(file, to_document(state))
    _show(state, as_json, f"exported to {file} from {state.store}")


@app.command("import")
def import_state(
    file: Annotated[Path, typer.Argument(help="File of headrace state export.")],
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write an exported state to an empty store.

    Writes to the configured coordination store, which must be empty. An interrupted import can be repeated.
    """
    from headrace.coordination.client import connected, store_name
    from headrace.coordination.document import from_document
    from headrace.coordination.transfer import import_state as write_state
    from headrace.dr.state_store import import_pairs
    from headrace.settings import load_settings

    settings = load_settings(config)
    state = from_document(file.read_bytes(), str(file))
    with connected(settings, "headrace state import") as nodes:
        write_state(nodes, state, partial(import_pairs, settings))
    _show(state, as_json, f"imported into {store_name(settings)}")


def _show(state: ExportedState, as_json: bool, done: str) -> None:
    if as_json:
        print_json({"nodes": len(state.nodes), "store": state.store, "exported_at_ms": state.exported_at_ms})
    else:
        console().print(f"{counted(len(state.nodes), 'node')} {done}", soft_wrap=True)
