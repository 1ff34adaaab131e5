"""`headrace dr`: exchange the active and the passive role of the clusters in a pair."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from headrace.commands.calls import CallOptions
from headrace.commands.pairs.drill import drill
from headrace.commands.pairs.pair_console import (
    DeadlineOption,
    DryRunOption,
    PairArgument,
    conclude,
    open_session,
    result_of,
    show_plan,
)
from headrace.commands.pairs.report import app as report_app
from headrace.commands.pairs.tail import app as tail_app
from headrace.console.durations import duration_seconds
from headrace.console.option_groups import CommandGroup
from headrace.console.terminal import complain, console, print_table
from headrace.errors import EXIT_FAILED

app = CommandGroup(no_args_is_help=True)
app.add_typer(report_app, name="report", help="Write a signed report on the last switch-over.")
app.add_typer(tail_app, name="tail", help="Decide on the records that a lost cluster still has.")
app.command()(drill)
_COLUMNS: Final = ("topic", "records", "bytes", "seconds", "unknown")
_LOSS_COLUMNS: Final = ("topic", "partition", "first", "end", "least", "most", "seconds")
_AWAY_SECONDS: Final = 10.0
"""Maximum seconds to wait for a cluster that may be down."""


@app.command()
def status(pair: PairArgument, call: CallOptions = CallOptions()) -> None:
    """Show the active cluster, and how much a failure would lose now."""
    from headrace.dr.status import status_of

    with open_session(pair, call, reads_only=True, request_seconds=_AWAY_SECONDS) as session:
        found = status_of(session)
    if call.printed_json(found):
        return
    console().print(f"{pair}: {found['state']}; producers write to {found['active']}")
    operation = found["operation"]
    if operation is not None:
        console().print(
            f"{operation['kind']} to {operation['target']} by {operation['operator']}: {operation['step']}"
            + (f"; being undone: {operation['failure']}" if operation["failure"] else "")
        )
    print_table("records not on the other cluster", _COLUMNS, found["topics"])
    for problem in found["problems"]:
        complain(problem)


@app.command()
def check(pair: PairArgument, call: CallOptions = CallOptions()) -> None:
    """Check whether a switch-over would succeed. Changes nothing.

    Exits with 1 if an item fails.
    """
    from headrace.dr.check import check_pair

    with open_session(pair, call, reads_only=True) as session:
        found = check_pair(session)
    ready = not any(item.grade == "fail" for item in found)
    if not call.printed_json({"pair": pair, "ready": ready, "items": [item._asdict() for item in found]}):
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
    deadline: DeadlineOption = "10m",
    dry_run: DryRunOption = False,
    call: CallOptions = CallOptions(),
) -> None:
    """Exchange the roles of the clusters without losing or repeating a record.

    An interrupted switch-over continues if you run the command again. If a step fails or the deadline passes,
    the switch-over is undone: producers write to the previous cluster again, and the command exits with 1.
    """
    seconds = duration_seconds(deadline)
    with open_session(pair, call, reads_only=dry_run) as session:
        if dry_run:
            state = session.planned(to)
            show_plan(session, state, as_json=call.as_json)
            return
        conclude(session, session.run(session.planned(to), seconds), as_json=call.as_json)


@app.command()
def failover(
    pair: PairArgument,
    to: Annotated[str, typer.Option(help="Cluster that producers write to afterwards.")],
    max_loss: Annotated[
        str, typer.Option(help="Maximum accepted loss, in records (1000-records) or as a time (30s).")
    ] = "0-records",
    accept_loss: Annotated[str, typer.Option(help="Displayed loss, to accept more than --max-loss.")] = "",
    deadline: DeadlineOption = "10m",
    dry_run: DryRunOption = False,
    call: CallOptions = CallOptions(),
) -> None:
    """Move to the other cluster after the loss of the active one.

    Shows the number of lost records by partition; fails if the loss exceeds --max-loss. The records remain at
    the lost cluster: see headrace dr tail. An interrupted failover continues if you run the command again.
    Exits with 1 if the failover was undone.
    """
    from mirror.jobs.dr.operation import operation_of

    seconds = duration_seconds(deadline)
    with open_session(pair, call, reads_only=dry_run, request_seconds=_AWAY_SECONDS) as session:
        state = session.planned_failover(to, max_loss, accept_loss)
        operation = operation_of(state)
        loss = operation.loss
        if loss is not None and not call.as_json:
            rows = [partition.model_dump() for partition in loss.partitions]
            print_table(f"loss: {loss.figure}", _LOSS_COLUMNS, rows)
        if not dry_run:
            conclude(session, session.run(state, seconds), as_json=call.as_json)
            return
        excess = operation.limit.excess(loss) if loss is not None else ""
        facts = {"loss": loss and loss.model_dump(mode="json"), "figure": loss and loss.figure}
        show_plan(session, state, as_json=call.as_json, facts={**facts, "excess": excess})
    if excess:
        complain(excess)
        raise typer.Exit(EXIT_FAILED)


@app.command()
def failback(
    pair: PairArgument,
    deadline: DeadlineOption = "10m",
    dry_run: DryRunOption = False,
    call: CallOptions = CallOptions(),
) -> None:
    """Return to the lost cluster after a failover.

    Copies only the records that the active cluster has received since the fork, then switches over. Fails
    while records on the lost cluster are undecided: see headrace dr tail. An interrupted return continues if
    you run the command again.
    """
    from mirror.jobs.dr.operation import Kind, is_returning

    seconds = duration_seconds(deadline)
    with open_session(pair, call, reads_only=dry_run) as session:
        if not dry_run:
            conclude(session, session.fail_back(seconds), as_json=call.as_json)
            return
        state = session.state()
        target = session.settings.other(state.active)
        state = session.planned(target) if is_returning(state) else session.planned("", Kind.FAILBACK)
        show_plan(session, state, as_json=call.as_json)


@app.command()
def abort(
    pair: PairArgument,
    reason: Annotated[str, typer.Option(help="Reason, recorded in the history.")] = "aborted",
    call: CallOptions = CallOptions(),
) -> None:
    """Undo an operation that is in progress.

    Removes the fence and the opposite datastreams, and resumes the stopped datastreams. Group positions that
    were committed on the other cluster remain there.
    """
    with open_session(pair, call, reads_only=False) as session:
        state = session.abort(reason)
    if not call.printed_json(result_of(session, state)):
        console().print(f"{pair}: undone; producers write to {state.active}")
