"""`headrace dr`: exchange the roles of a pair of clusters."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from headrace.commands.datastreams.connection import connect
from headrace.commands.options import AtOption, ConfigOption, JsonOption
from headrace.commands.pairs.drill import drill
from headrace.commands.pairs.report import app as report_app
from headrace.console.terminal import complain, console, note, print_json, print_table
from headrace.errors import EXIT_FAILED

if TYPE_CHECKING:
    from headrace.dr.session import PairSession
    from mirror.jobs.dr.operation import PairState

app = typer.Typer(no_args_is_help=True)
app.add_typer(report_app, name="report", help="Write a signed report on the last switch-over.")
app.command()(drill)
PairArgument = Annotated[str, typer.Argument(help="Name of the pair, as in [dr.NAME] of the settings.")]
_COLUMNS: Final = ("topic", "records", "seconds", "unknown")


@app.command()
def status(
    pair: PairArgument, at: AtOption = "", config: ConfigOption = None, as_json: JsonOption = False
) -> None:
    """Show the active cluster, and how much a failure would lose now."""
    from headrace.dr.status import status_of

    with _session(pair, at, config, reads_only=True) as session:
        found = status_of(session)
    if as_json:
        print_json(found)
        return
    console().print(f"{pair}: {found['state']}; producers write to {found['active']}")
    operation = found["operation"]
    if operation is not None:
        console().print(
            f"switch-over to {operation['target']} by {operation['operator']}: {operation['step']}"
            + (f"; being undone: {operation['failure']}" if operation["failure"] else "")
        )
    print_table("not at the other cluster", _COLUMNS, found["topics"])
    for problem in found["problems"]:
        complain(problem)


@app.command()
def check(
    pair: PairArgument, at: AtOption = "", config: ConfigOption = None, as_json: JsonOption = False
) -> None:
    """Check whether a switch-over would succeed. Changes nothing.

    Exits with 1 if an item fails.
    """
    from headrace.dr.check import check_pair

    with _session(pair, at, config, reads_only=True) as session:
        found = check_pair(session)
    ready = not any(item.grade == "fail" for item in found)
    if as_json:
        print_json({"pair": pair, "ready": ready, "items": [item._asdict() for item in found]})
    else:
        print_table(
            f"{pair}: {'ready' if ready else 'not ready'}",
            ["item", "grade", "detail"],
            [item._asdict() for item in found],
        )
    if not ready:
        raise typer.Exit(EXIT_FAILED)


@app.command()
def switchover(
    pair: PairArgument,
    to: Annotated[str, typer.Option(help="Cluster that producers write to afterwards.")],
    deadline: Annotated[
        str, typer.Option(help="Time after which an incomplete switch-over is undone.")
    ] = "10m",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the steps without doing them.")] = False,
    at: AtOption = "",
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Exchange the roles of the clusters without losing or repeating a record.

    Run it again after an interruption: it continues. If a step fails or the deadline passes, everything is
    restored. Exits with 1 if producers still write to the former cluster.
    """
    from headrace.console.durations import milliseconds
    from headrace.dr.acts import plan_of
    from mirror.jobs.dr.operation import operation_of

    seconds = milliseconds(deadline) / 1000
    with _session(pair, at, config, reads_only=dry_run) as session:
        if dry_run:
            state = session.planned(to)
            plan = plan_of(state, operation_of(state), session.settings)
            if as_json:
                print_json({"pair": pair, "active": state.active, "steps": plan})
            else:
                print_table(f"{pair}: {state.active} to {to}", ["step", "action"], plan)
            return
        _conclude(session, session.switch(to, seconds), as_json=as_json)


@app.command()
def abort(
    pair: PairArgument,
    reason: Annotated[str, typer.Option(help="Reason, recorded in the history.")] = "aborted",
    at: AtOption = "",
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Undo a switch-over that is in progress: fence, stopped and opposite datastreams.

    Positions of groups that are committed at the other cluster remain there.
    """
    with _session(pair, at, config, reads_only=False) as session:
        state = session.abort(reason)
    if as_json:
        print_json(_result(session, state))
    else:
        console().print(f"{pair}: undone; producers write to {state.active}")


def _session(
    pair: str, at: str, config: Path | None, *, reads_only: bool
) -> AbstractContextManager[PairSession]:
    from headrace.dr.session import pair_session
    from headrace.settings import load_settings

    return pair_session(load_settings(config), pair, connect(at, config), note, reads_only=reads_only)


def _result(session: PairSession, state: PairState) -> dict[str, Any]:
    past = state.history[-1].model_dump(mode="json")
    rto_ms = session.settings.rto_seconds * 1000
    return {"pair": session.name, "active": state.active, **past, "rto_met": past["closed_ms"] <= rto_ms}


def _conclude(session: PairSession, state: PairState, *, as_json: bool) -> None:
    """Show the end of a switch-over. Exits with 1 if it was undone."""
    past = state.history[-1]
    if as_json:
        print_json(_result(session, state))
    elif past.failure:
        complain(f"the switch-over of {session.name} was undone: {past.failure}")
    else:
        console().print(
            f"{session.name}: producers write to {state.active} now; they were stopped for"
            f" {past.closed_ms / 1000:.1f} s"
        )
        for remark in past.notes:
            console().print(remark)
    if past.failure:
        raise typer.Exit(EXIT_FAILED)
