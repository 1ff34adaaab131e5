"""Lists the commands of the command group `headrace datastream`."""

from __future__ import annotations

from typing import Final

from headrace.commands.datastreams import definitions, losses, plans, reads, states
from headrace.console.option_groups import CommandGroup

app: Final = CommandGroup(no_args_is_help=True)
for command in (
    definitions.create,
    definitions.update,
    definitions.get,
    states.pause,
    states.resume,
    states.stop,
    states.delete,
    states.pause_partitions,
    states.resume_partitions,
    states.pause_group,
    states.resume_group,
    states.restart_from,
    states.move,
    losses.lost,
    losses.restore,
    losses.forget,
    plans.plan,
    plans.show_plan,
    plans.apply_plan,
    reads.lag,
    reads.gaps,
    reads.wait,
):
    app.command()(command)
app.command(name="list")(definitions.list_all)
