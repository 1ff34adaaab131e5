"""Options and functions that the commands for pairs of clusters share."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.commands.calls import ServiceOptions
from headrace.console.terminal import complain, console, note, print_json, print_table
from headrace.errors import EXIT_FAILED

if TYPE_CHECKING:
    from headrace.dr.pair_session import PairSession
    from mirror.jobs.dr.operation import PairState

PairArgument = Annotated[str, typer.Argument(help="Name of the pair, as in [dr.NAME] of the settings.")]
DeadlineOption = Annotated[str, typer.Option(help="Time after which an incomplete operation is undone.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Show the steps without executing them.")]


def open_session(
    pair: str, service: ServiceOptions, *, reads_only: bool, request_seconds: float = math.inf
) -> AbstractContextManager[PairSession]:
    """Connect to the clusters and the service of a pair for one command. Raises the errors of
    `pair_session`."""
    from headrace.dr.pair_session import pair_session
    from headrace.settings import load_settings

    settings, client = load_settings(service.config), service.connect()
    return pair_session(settings, pair, client, note, reads_only=reads_only, request_seconds=request_seconds)


def show_plan(
    session: PairSession, state: PairState, *, as_json: bool, facts: Mapping[str, Any] | None = None
) -> None:
    """Show the remaining steps of a switch-over, failover or failback.

    `facts`: additional values for --json.
    """
    from headrace.dr.acts import plan_of
    from mirror.jobs.dr.operation import operation_of

    plan = plan_of(state, operation_of(state), session.settings)
    if as_json:
        print_json({"pair": session.name, "active": state.active, "steps": plan, **(facts or {})})
    else:
        print_table(f"steps of {session.name}", ["step", "action"], plan)


def result_of(session: PairSession, state: PairState) -> dict[str, Any]:
    """Return the JSON document about the last completed operation of a pair."""
    past = state.history[-1].model_dump(mode="json")
    rto_ms = session.settings.rto_seconds * 1000
    return {"pair": session.name, "active": state.active, **past, "rto_met": past["closed_ms"] <= rto_ms}


def conclude(session: PairSession, state: PairState, *, as_json: bool) -> None:
    """Show the result of an operation on a pair. Exits with 1 if the operation was undone."""
    past = state.history[-1]
    if as_json:
        print_json(result_of(session, state))
    elif past.failure:
        complain(f"the {past.kind} of {session.name} was undone: {past.failure}")
    else:
        stopped = f"; writes were stopped for {past.closed_ms / 1000:.1f} s" if past.closed_ms else ""
        console().print(f"{session.name}: {past.kind} to {past.target} done{stopped}")
        for remark in past.notes:
            console().print(remark)
    if past.failure:
        raise typer.Exit(EXIT_FAILED)
