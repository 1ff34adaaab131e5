"""`headrace token …`: who may call the service. The file that it changes has hashes only."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.commands.options import ConfigOption, JsonOption
from headrace.console.terminal import console, error_console, print_json, print_table

app = typer.Typer(no_args_is_help=True)
FileOption = Annotated[
    Path | None,
    typer.Option("--file", help="The file of hashes; default: api.access.token_file.", show_default=False),
]


@app.command()
def add(
    name: Annotated[str, typer.Argument(help="Who will use it: what events and the log show.")],
    role: Annotated[str, typer.Option(help="viewer, owner, operator or admin.")] = "viewer",
    owner: Annotated[
        list[str] | None, typer.Option(help="With the role owner: an owner of datastreams; may be repeated.")
    ] = None,
    expires_in: Annotated[
        str, typer.Option(help="How long it is valid: 12h, 90d; for ever without.", show_default=False)
    ] = "",
    file: FileOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a token and print it, this once: nothing keeps it. Running instances know it at once."""
    from api.access.token_edits import add_entry
    from api.access.tokens import check_not_reserved, new_token, principal_named
    from headrace.console.durations import milliseconds
    from mirror.adapters.system_clock import SystemClock

    path, now_ms = _file(file, config), SystemClock().now_ms()
    principal = principal_named(name, role, owner or [])
    check_not_reserved(name)
    token, entry = new_token(principal, now_ms, now_ms + milliseconds(expires_in) if expires_in else None)
    add_entry(path, entry)
    if as_json:
        print_json({"id": entry.identity, "name": name, "role": role, "token": token})
        return
    error_console().print(f"token {entry.identity} of {name} ({role}) is in force; it is not shown again:")
    console().print(token, soft_wrap=True)


@app.command("list")
def list_all(file: FileOption = None, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Every token but its secret."""
    from api.access.tokens import read_entries
    from mirror.model.datastreams.pauses import moment_text

    rows = [
        {
            "id": one.identity,
            "name": one.principal.name,
            "role": one.principal.role.value,
            "owners": sorted(one.principal.owners),
            "created": moment_text(one.created_ms),
            "expires": moment_text(one.expires_ms) if one.expires_ms is not None else None,
        }
        for one in read_entries(_file(file, config)).values()
    ]
    if as_json:
        print_json(rows)
    else:
        print_table("tokens", ["id", "name", "role", "owners", "created", "expires"], rows)


@app.command()
def revoke(
    identity: Annotated[str, typer.Argument(metavar="ID", help="As `headrace token list` shows it.")],
    file: FileOption = None,
    config: ConfigOption = None,
) -> None:
    """Let a token open nothing any more. Running instances know it at once."""
    from api.access import token_edits

    found = token_edits.revoke(_file(file, config), identity)
    console().print(f"token {identity} of {found.principal.name} is revoked")


def _file(given: Path | None, config: Path | None) -> Path:
    """Raises ConfigError where none is named."""
    from headrace.settings import load_settings
    from mirror.errors import ConfigError

    named = given or load_settings(config).api.access.token_file
    if not named:
        raise ConfigError("api.access.token_file is not set", advice="set it, or give --file")
    return Path(named)
