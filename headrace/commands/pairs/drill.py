"""`headrace dr drill`: rehearse a switch-over."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.commands.calls import CallOptions
from headrace.commands.pairs.pair_console import DryRunOption, PairArgument
from headrace.console.terminal import complain, console, note, print_json, print_table
from headrace.errors import EXIT_FAILED


def drill(
    pair: PairArgument,
    duration: Annotated[str, typer.Option("--for", help="Time to write records on each cluster.")] = "10s",
    deadline: Annotated[str, typer.Option(help="Time for each step that waits.")] = "5m",
    dry_run: DryRunOption = False,
    call: CallOptions = CallOptions(),
) -> None:
    """Rehearse a switch-over and its reversal on a separate topic.

    The drill does not touch the datastreams of the pair. At the end it removes its topic, datastream and
    fence; if a drill is interrupted, the next drill removes them. Exits with 1 if a step fails or misses a
    target.
    """
    from headrace.clusters.directory import ClusterDirectory
    from headrace.console.durations import duration_seconds
    from headrace.dr.acts import plan_of
    from headrace.dr.drill import Drill
    from headrace.dr.pair_session import pair_session
    from headrace.settings import load_settings
    from mirror.jobs.dr.operation import begin, operation_of

    seconds, deadline_seconds = (duration_seconds(text) for text in (duration, deadline))
    settings = load_settings(call.config)
    directory = ClusterDirectory(settings.clusters)
    with pair_session(settings, pair, call.connect(), note, reads_only=dry_run) as session:
        rehearsal = Drill(session, directory, seconds, deadline_seconds)
        if dry_run:
            state, own = rehearsal.planned()
            state = begin(state, own.other(state.active), "", 0, "")
            plan = plan_of(state, operation_of(state), own)
            if call.as_json:
                print_json({"pair": pair, "active": state.active, "steps": plan})
            else:
                print_table(f"drill of {pair}", ["step", "action"], plan)
            return
        result = rehearsal.run()
    if not call.printed_json(result.to_json()):
        legs = [
            {
                "from": leg.origin,
                "to": leg.target,
                "outcome": leg.failure or "completed",
                "seconds without writes": leg.closed_ms / 1000,
            }
            for leg in result.legs
        ]
        if legs:
            print_table(f"drill of {pair}", list(legs[0]), legs)
        for problem in result.problems:
            complain(problem)
        console().print("passed" if result.is_passed else "not passed")
    if not result.is_passed:
        raise typer.Exit(EXIT_FAILED)
