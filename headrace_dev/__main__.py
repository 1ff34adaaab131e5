"""Entry point of the command `headrace-dev`."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import typer

from headrace.__main__ import HELP_OPTIONS, run_command
from headrace.console.option_groups import CommandGroup
from headrace_dev.commands import calibrate, demo, reference, spark, stack

_STACK: Final = "Run ZooKeeper, two Kafka clusters and Pinot locally."


@cache
def app() -> typer.Typer:
    """Return the typer application of `headrace-dev`."""
    made = CommandGroup(
        name="headrace-dev",
        help="Try and develop Headrace on this machine.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings=HELP_OPTIONS,
    )
    made.add_typer(stack.app, name="stack", help=_STACK)
    made.command("demo")(demo.demo)
    made.command("calibrate")(calibrate.calibrate)
    made.command("spark-env")(spark.spark_env)
    made.command("reference")(reference.reference)
    return made


@cache
def _command() -> Any:
    return typer.main.get_command(app())


def main() -> None:
    """Run a command; report an expected failure as one line on stderr and a non-zero exit code."""
    run_command(_command(), "headrace-dev")


if __name__ == "__main__":
    main()
