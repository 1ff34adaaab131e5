"""Entry point of the command `headrace`."""

from __future__ import annotations

import gc
import os
import sys
from functools import cache
from importlib import import_module
from typing import Annotated, Any, Final

import typer

from headrace.console.option_groups import CommandGroup
from headrace.console.terminal import complain, console
from headrace.errors import exit_code_of, explain
from headrace.process.logs import log_first_to_stderr

HELP_OPTIONS: Final = {"help_option_names": ["-h", "--help"]}
_GROUPS: Final = {
    "datastream": ("datastreams.group", "Create, list and control datastreams over REST."),
    "groups": ("datastreams.consumer_groups", "Show consumer groups whose committed offsets are copied."),
    "topics": ("topics", "Find topics that nobody uses, and retire them."),
    "config": ("config", "Check and show the settings, and list every key."),
    "state": ("fleet.state", "Move the state of a stopped service to another store."),
    "token": ("fleet.token", "Create, list and revoke the tokens of callers."),
    "slo": ("analytics.slo", "Export and import objectives as OpenSLO documents."),
    "pinot": ("analytics.pinot", "Manage the metric tables and run named queries."),
    "monitor": ("analytics.monitor", "Judge latency against objectives and advise on sizing."),
    "loads": ("analytics.load_export", "Export recorded partition loads to a file."),
    "audit": ("audit", "Compare both ends of a datastream (headrace audit NAME)."),
    "dr": ("dr", "Exchange the roles of a pair of clusters."),
    "pmp": ("analytics.pmp", "Run the partition metrics pipeline and read its loads."),
}
"""Command groups: the module that defines `app`, and the help text."""
_COMMANDS: Final = {
    "status": "fleet.status",
    "lag": "fleet.lag",
    "lanes": "fleet.lanes",
    "instances": "fleet.instances",
    "doctor": "fleet.doctor",
    "serve": "serve",
    "plan": "analytics.plan",
    "apply": "datastreams.apply",
    "rebalance": "rebalance",
    "events": "events",
    "incidents": "events",
    "acting": "analytics.monitor_switch",
    "canary": "canary",
    "usage": "usage",
    "copy": "copy",
    "verify": "verify",
    "import-brooklin": "import_brooklin",
    "translate": "translate",
    "progress": "translate",
}
"""Module that defines the function of each command."""


def app_of(*names: str) -> typer.Typer:
    """Return a typer application with only the given commands.

    Importing the modules of all commands would take one second of CPU time.
    """
    app = CommandGroup(
        name="headrace",
        help="Mirror Kafka topics between clusters, balanced by measured load.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings=HELP_OPTIONS,
    )
    for name, (module, help_text) in _GROUPS.items():
        if name in names:
            app.add_typer(_module(module).app, name=name, help=help_text)
    for name, module in _COMMANDS.items():
        if name in names:
            app.command(name)(getattr(_module(module), name.replace("-", "_")))
    app.callback()(options_of_all)
    return app


def _module(name: str) -> Any:
    return import_module(f"headrace.commands.{name}")


def _show_version(is_asked: bool) -> None:
    if not is_asked:
        return
    import platform
    from importlib.metadata import version

    from headrace.process.machine_code import COMPILED, INTERPRETED, found

    data_plane = COMPILED if found() else INTERPRETED
    python = platform.python_version()
    console().print(f"headrace {version('headrace')}, data plane {data_plane}, Python {python}")
    raise typer.Exit


def options_of_all(
    _: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_show_version,
            is_eager=True,
            help="Show the version and the kind of data plane, and exit.",
        ),
    ] = False,
) -> None:
    """Accept the global options that precede the command."""


@cache
def whole_app() -> typer.Typer:
    """Return the typer application with every command."""
    return app_of(*_GROUPS, *_COMMANDS)


def __getattr__(name: str) -> Any:
    if name == "app":
        return whole_app()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@cache
def _command(first: str) -> Any:
    """Return the click command with this name; if there is no such command, return the whole application.

    The result is cached, because typer derives it from up to 60 functions.
    """
    is_alone = first in _GROUPS or first in _COMMANDS
    return typer.main.get_command(app_of(first) if is_alone else whole_app())


def first_argument() -> str:
    """Return the first command-line argument, normally the name of the command. Empty without arguments and
    during shell completion."""
    completes = "_HEADRACE_COMPLETE" in os.environ
    return "" if completes or len(sys.argv) < 2 else sys.argv[1]


def main() -> None:
    """Run the command that the first argument names."""
    gc.disable()  # imports leave no garbage, and searching for it takes a tenth of a short command's time
    command = _command(first_argument())
    gc.freeze()
    gc.enable()
    run_command(command, "headrace")


def run_command(command: Any, program: str) -> None:
    """Run a click command. Report an expected failure as one line on stderr and a non-zero exit code."""
    log_first_to_stderr()
    try:
        command(prog_name=program)
    except Exception as error:
        message = explain(error)
        if message is None:
            raise
        complain(message)
        sys.exit(exit_code_of(error))


if __name__ == "__main__":
    main()
