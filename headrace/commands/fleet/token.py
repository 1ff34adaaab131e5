"""`headrace token …`: manage access tokens. The token file contains only hashes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.commands.options import ConfigOption, JsonOption
from headrace.console.option_groups import CommandGroup
from headrace.console.terminal import console, error_console, print_json, print_table

app = CommandGroup(no_args_is_help=True)
FileOption = Annotated[
    Path | None, typer.Option("--file", help="Token file (default: api.access.token_file).")
]


@app.command()
def add(
    name: Annotated[str, typer.Argument(help="Name of the caller, as shown in events and logs.")],
    role: Annotated[str, typer.Option(help="Role: viewer, owner, operator or admin.")] = "viewer",
    owner: Annotated[
        list[str] | None, typer.Option(help="With role owner, an owner of datastreams; repeatable.")
    ] = None,
    expires_in: Annotated[str, typer.Option(help="Validity, such as 12h or 90d (default: no expiry).")] = "",
    file: FileOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create a token and print it once; only its hash is stored.

    Running instances accept the token immediately."""
    from api.access.tokens import add_entry, check_not_reserved, new_token, principal_named
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
    error_console().print(f"token {entry.identity} of {name} ({role}) is active; it is not shown again:")
    console().print(token, soft_wrap=True)


@app.command("list")
def list_all(file: FileOption = None, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """List tokens, without their secrets."""
    from api.access.tokens import read_entries
    from mirror.model.datastreams.pauses import moment_text

    rows = [
        {
            "id": entry.identity,
            "name": entry.principal.name,
            "role": entry.principal.role.value,
            "owners": sorted(entry.principal.owners),
            "created": moment_text(entry.created_ms),
            "expires": moment_text(entry.expires_ms) if entry.expires_ms is not None else None,
        }
        for entry in read_entries(_file(file, config)).values()
    ]
    if as_json:
        print_json(rows)
    else:
        print_table("tokens", ["id", "name", "role", "owners", "created", "expires"], rows)


@app.command()
def revoke(
    identity: Annotated[str, typer.Argument(metavar="ID", help="Id, as listed by headrace token list.")],
    file: FileOption = None,
    config: ConfigOption = None,
) -> None:
    """Revoke a token; running instances reject it immediately."""
    from api.access import tokens

    found = tokens.revoke(_file(file, config), identity)
    console().print(f"token {identity} of {found.principal.name} is revoked")


def _file(given: Path | None, config: Path | None) -> Path:
    """Return the path of the token file. Raises ConfigError if none is configured."""
    from headrace.settings import load_settings
    from mirror.errors import ConfigError

    named = given or load_settings(config).api.access.token_file
    if not named:
        raise ConfigError("api.access.token_file is not set", advice="set it, or pass --file")
    return Path(named)
