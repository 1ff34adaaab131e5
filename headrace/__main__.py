"""Entry point of the command `headrace`."""

from __future__ import annotations

import sys
from functools import cache
from typing import Annotated, Any

import typer

from headrace.commands import (
    config,
    copy,
    demo,
    events,
    import_brooklin,
    rebalance,
    serve,
    stack,
    translate,
    verify,
)
from headrace.commands.access import token
from headrace.commands.analytics import loads, monitor, monitor_switch, pinot, plan, pmp, slo
from headrace.commands.datastreams import group
from headrace.commands.datastreams.apply import apply
from headrace.commands.fleet import calibrate, doctor, instances, lag, lanes, status
from headrace.console.terminal import complain, console
from headrace.errors import exit_code_of, explain

app = typer.Typer(
    name="headrace",
    help="Mirror Kafka topics between clusters, balanced by measured load.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(
    stack.app, name="stack", help="Real servers on this machine: ZooKeeper, two Kafka clusters, Pinot."
)
app.add_typer(group.app, name="datastream", help="Create, list and control datastreams over REST.")
app.add_typer(config.app, name="config", help="Check the settings, and list every key.")
app.add_typer(token.app, name="token", help="Who may call the service: make, list and revoke tokens.")
app.add_typer(slo.app, name="slo", help="Objectives of datastreams as OpenSLO documents.")
app.add_typer(pinot.app, name="pinot", help="Tables of metrics, and named queries over them.")
app.add_typer(monitor.app, name="monitor", help="Latency against objectives, and advice to size the service.")
app.add_typer(loads.app, name="loads", help="Recorded loads of partitions, as a file.")
app.add_typer(pmp.app, name="pmp", help="Partition metrics: the Spark job, the sampler, the loads.")
app.command()(status.status)
app.command()(lag.lag)
app.command()(lanes.lanes)
app.command()(instances.instances)
app.command()(doctor.doctor)
app.command()(calibrate.calibrate)
app.command()(serve.serve)
app.command(hidden=True)(serve.worker)
app.command()(plan.plan)
app.command()(apply)
app.command()(rebalance.rebalance)
app.command()(events.events)
app.command()(events.incidents)
app.command()(monitor_switch.acting)
app.command()(monitor.audit)
app.command()(demo.demo)
app.command()(copy.copy)
app.command()(verify.verify)
app.command()(import_brooklin.import_brooklin)
app.command()(translate.translate)
app.command()(translate.progress)


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


@app.callback()
def options_of_all(
    _: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_show_version,
            is_eager=True,
            help="Show the version, and how the data plane runs, and exit.",
        ),
    ] = False,
) -> None:
    """Take the options that stand before the command."""


@cache
def _command() -> Any:
    """Return the tree of commands: what typer works out of 60 functions, once for a process."""
    return typer.main.get_command(app)


def main() -> None:
    """Run a command; a foreseen failure is one line on stderr and a non-zero exit code."""
    try:
        _command()(prog_name="headrace")
    except Exception as error:
        message = explain(error)
        if message is None:
            raise
        complain(message)
        sys.exit(exit_code_of(error))


if __name__ == "__main__":
    main()
