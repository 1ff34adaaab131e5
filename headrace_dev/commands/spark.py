"""`headrace-dev spark-env`: print the variables with which `headrace pmp run` finds Java and its
connectors."""

from __future__ import annotations

import shlex
from typing import Annotated

import typer

from headrace.console.terminal import note, print_json, print_text


def spark_env(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Print Java and Spark's connectors as shell exports for `headrace pmp run`.

    Fetches missing jars."""
    from stack.jars.spark import job_environment

    variables = job_environment(lambda message: note(message, soft_wrap=True))
    if as_json:
        print_json(variables)
        return
    for variable, value in variables.items():
        print_text(f"export {variable}={shlex.quote(value)}")
