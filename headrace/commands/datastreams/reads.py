"""`headrace datastream lag`, `gaps` and `wait`: lag, missing records, and waiting for a condition."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from headrace.commands.calls import CallOptions, ServiceOptions
from headrace.commands.datastreams.connection import NameArgument
from headrace.console.resources import UNKNOWN, WaitCondition, age_text, path_of
from headrace.console.terminal import console, print_table
from mirror.wording import counted, duration_text


def lag(name: NameArgument, call: CallOptions = CallOptions()) -> None:
    """Show the lag of each partition, or that it is unknown."""
    found = call.connect().get(f"{path_of(name)}/lag")
    if call.printed_json(found):
        return
    rows = [
        {
            **partition,
            "partition": f"{partition['topic']}-{partition['partition']}",
            **_known(partition),
            **_movement(partition),
        }
        for partition in found["partitions"]
    ]
    columns = ["partition", "state", "movement", "lag_records", "oldest", "eta", "to_loss"]
    columns += ["task", "instance", "reason"]
    print_table(f"{found['name']}, {found['status']}", columns, rows)
    records = found["lag_records"]
    if not rows:
        console().print(f"no partitions: headrace datastream get {found['name']} shows the reasons")
    elif records is None:
        console().print(f"unknown lag: {found['unknown']} of {counted(len(rows), 'partition')}")
    else:
        console().print(f"{counted(records, 'record')} behind, oldest {age_text(found['lag_ms'])}")
    if found["silent_instances"]:
        console().print(f"no response from {', '.join(found['silent_instances'])}")
    if not found["is_complete"]:
        console().print("unassigned partitions may be missing: no response from the leader")


def _known(partition: dict[str, Any]) -> dict[str, Any]:
    records = partition["lag_records"]
    return {"lag_records": UNKNOWN if records is None else records, "oldest": age_text(partition["lag_ms"])}


def _movement(partition: dict[str, Any]) -> dict[str, Any]:
    """Return the table cells about the progress of a partition. The reason comes from its lane, else from the
    movement state."""
    found = partition.get("movement") or {
        "state": "?",
        "eta_seconds": None,
        "seconds_to_loss": None,
        "reason": "",
    }
    seconds = {"eta": found["eta_seconds"], "to_loss": found["seconds_to_loss"]}
    shown = {key: "" if value is None else duration_text(value) for key, value in seconds.items()}
    return {**shown, "movement": found["state"], "reason": partition["reason"] or found["reason"]}


def gaps(name: NameArgument, call: CallOptions = CallOptions()) -> None:
    """Show records that will not reach the destination."""
    found = call.connect().get(f"{path_of(name)}/gaps")
    if call.printed_json(found):
        return
    columns = ["partition", "up_to", "filtered", "compacted", "lost", "dead_lettered", "why"]
    print_table(
        f"gaps of {found['name']}", columns, [_gap_row(partition) for partition in found["partitions"]]
    )
    console().print(
        f"{len(found['partitions'])} of {counted(found['looked_at'], 'partition')} "
        "with stored progress have gaps"
    )
    if found["unknown"]:
        console().print(f"no stored progress for {len(found['unknown'])}: {', '.join(found['unknown'][:10])}")


def _gap_row(gaps: dict[str, Any]) -> dict[str, Any]:
    why = [*gaps["events"]]
    if gaps["refused"]:
        why.append(f"paused itself: {gaps['refused']}")
    if gaps["not_copied"]:
        idle = gaps["not_copied"]
        why.append(f"{idle['state']}: {idle['reason']}" if idle["reason"] else idle["state"])
    if gaps["destination_is_current"] is False:
        why.append("the destination topic was deleted")
    counts = {fate: count or None for fate, count in gaps["offsets"].items()}
    return {
        **{"partition": f"{gaps['topic']}-{gaps['partition']}", "up_to": gaps["next_offset"], "why": why},
        **counts,
    }


def wait(
    name: NameArgument,
    condition: Annotated[WaitCondition, typer.Option("--for", help="Condition to wait for.")],
    timeout: Annotated[str, typer.Option(help="Time to wait, such as 90s, 10m or 1h.")] = "60s",
    most_lag: Annotated[
        int, typer.Option("--lag", min=0, help="With caught-up, maximum lag of a partition in records.")
    ] = 0,
    service: ServiceOptions = ServiceOptions(),
) -> None:
    """Wait until a datastream meets a condition.

    running: every partition is being copied or was paused by an operator. caught-up: also, no partition lags
    by more than --lag records. Exits with 1 on timeout.
    """
    from headrace.console.datastreams.conditions import wait_until
    from headrace.console.durations import duration_seconds

    wait_until(service.connect(), path_of(name), condition, duration_seconds(timeout), most_lag=most_lag)
    console().print(f"{name}: {condition}")
