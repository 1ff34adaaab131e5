"""`headrace-dev stack …`: run real servers on this machine."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.console.option_groups import CommandGroup
from headrace.console.terminal import error_console, print_json, print_table, print_text
from headrace_dev.commands.stop_signals import cleaning_up

if TYPE_CHECKING:
    from stack.supervisor import ServerStatus, Stack

app = CommandGroup(no_args_is_help=True)

Names = Annotated[
    list[str] | None,
    typer.Argument(metavar="[zookeeper] [source] [destination] [pinot]", help="Servers (default: all)."),
]
Home = Annotated[
    Path | None, typer.Option(help="Folder of data, configuration and logs (default .headrace/stack).")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
_COLUMNS = ("name", "state", "address", "pid", "memory_mib", "lacks")


@app.command()
def up(
    names: Names = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Stop the servers and delete their data first.")
    ] = False,
    port_offset: Annotated[
        int | None, typer.Option(help="Offset added to every port, for a second stack.")
    ] = None,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Start servers and wait until they are ready.

    Servers that are already running are not restarted. The servers run until `headrace-dev stack down`."""
    from stack.ports import StackPorts
    from stack.supervisor import Lifetime, Stack

    ports = None if port_offset is None else StackPorts().shifted(port_offset)
    stack = Stack(home, ports, lifetime=Lifetime.DETACHED, report=_echo)
    with cleaning_up(_echo):
        statuses = stack.up(names or (), fresh=fresh)
    _show(stack, statuses, as_json)


@app.command()
def down(names: Names = None, home: Home = None, as_json: AsJson = False) -> None:
    """Stop servers and wait for their exit; data is kept."""
    stack = _stack(home)
    _show(stack, stack.down(names or ()), as_json)


@app.command()
def status(names: Names = None, home: Home = None, as_json: AsJson = False) -> None:
    """Show the state of the servers.

    Exits with 1 if a started server has died or is not ready. Without names and --home the command also shows
    the processes of a demo, which do not affect the exit status."""
    from headrace_dev.demo.kept import demo_home, status_of

    stack = _stack(home)
    statuses = stack.status(names or ())
    demo = [] if names or home else [asdict(status) for status in status_of(demo_home())]
    if as_json:
        print_json({**_document(stack, statuses), "demo": {"home": str(demo_home()), "running": demo}})
    else:
        _show(stack, statuses, as_json)
        if demo:
            print_table(f"demo in {demo_home()} (stop it with headrace-dev demo --stop)", _COLUMNS, demo)
    if any(each.state in ("died", "not ready") for each in statuses):
        raise typer.Exit(1)


@app.command()
def logs(
    name: Annotated[str, typer.Argument(help="zookeeper, source, destination or pinot.")],
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Print new lines until interrupted.")
    ] = False,
    lines: Annotated[int, typer.Option(min=0, help="Number of lines from the end.")] = 50,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Show the end of a server's log."""
    from stack.errors import StackError
    from stack.server import tail

    file = _stack(home).server(name).log_file
    if not file.exists():
        raise StackError(
            f"{name} has no log yet", advice=f"start the server with headrace-dev stack up {name}"
        )
    size = file.stat().st_size
    shown = tail(file, lines)
    if as_json and not follow:
        print_json({"name": name, "file": str(file), "lines": shown})
        return
    for line in shown:
        _print_line(line, as_json)
    with contextlib.suppress(KeyboardInterrupt):
        for line in _following(file, size) if follow else ():
            _print_line(line, as_json)


@app.command()
def env(home: Home = None, as_json: AsJson = False) -> None:
    """Print the addresses as shell exports for Headrace."""
    addresses = _stack(home).addresses()
    if as_json:
        print_json(addresses.as_dict())
        return
    for variable, value in addresses.as_environment().items():
        print_text(f"export {variable}={value}")


def _stack(home: Path | None) -> Stack:
    from stack.supervisor import Stack

    return Stack(home)


def _echo(message: str) -> None:
    error_console().print(message, soft_wrap=True)


def _show(stack: Stack, statuses: list[ServerStatus], as_json: bool) -> None:
    document = _document(stack, statuses)
    if as_json:
        print_json(document)
    else:
        print_table(f"stack in {stack.home}", _COLUMNS, document["servers"])


def _document(stack: Stack, statuses: list[ServerStatus]) -> dict[str, Any]:
    return {"home": str(stack.home), "servers": [asdict(status) for status in statuses]}


def _print_line(line: str, as_json: bool) -> None:
    if as_json:
        print_json(line, indent=None)
    else:
        print_text(line)


def _following(file: Path, position: int) -> Iterator[str]:
    """Yield the lines that are appended to a log. A shorter file may replace it."""
    rest = b""
    while True:
        size = file.stat().st_size if file.exists() else 0
        if size < position:
            position, rest = 0, b""
        if size > position:
            with file.open("rb") as stream:
                stream.seek(position)
                rest += stream.read()
                position = stream.tell()
            *whole, rest = rest.split(b"\n")
            for line in whole:
                yield line.decode("utf-8", errors="replace")
        time.sleep(0.2)  # noqa: TID251 - a growing file sends no notification
