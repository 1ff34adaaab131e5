"""`headrace instances`: list the instances of the service."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from headrace.commands.calls import CallOptions
from headrace.console.resources import instance_state, instance_troubles
from headrace.console.terminal import print_json, print_table
from mirror.wording import counted

NONE_JOINED: Final = "no instance has joined the service"


def instances(call: CallOptions = CallOptions()) -> None:
    """List instances with their health, the leader first.

    Exits with 1 if no instance has joined the service yet."""
    found = call.connect().get("/v1/instances")
    if call.as_json:
        print_json(found)
    elif found:
        columns = ["name", "state", "address", "leads", "epoch", "weight", "data_plane", "problems"]
        print_table(counted(len(found), "instance"), columns, [_row(instance) for instance in found])
    if not found:
        from mirror.errors import HeadraceError

        raise HeadraceError(
            NONE_JOINED,
            advice="wait a few seconds; if still no instance joins, run headrace doctor and read the log",
        )


def _row(instance: Mapping[str, Any]) -> dict[str, Any]:
    health = instance["health"] or {"is_leading": None, "epoch": "?", "data_plane": "?"}
    return {
        "name": instance["name"],
        "state": instance_state(instance),
        "address": instance["rest_address"],
        "leads": "?" if health["is_leading"] is None else ("yes" if health["is_leading"] else "no"),
        "epoch": health["epoch"],
        "weight": f"{instance['weight']:g}",
        "data_plane": health["data_plane"] or "no worker is ready",
        "problems": list(instance_troubles(instance)),
    }
