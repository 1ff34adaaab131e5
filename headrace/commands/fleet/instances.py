"""`headrace instances`: who runs the service."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from headrace.commands.datastreams.connection import connect
from headrace.commands.options import AtOption, ConfigOption, JsonOption
from headrace.console.terminal import print_json, print_table


def instances(at: AtOption = "", config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Show every instance, the leader first, with what it says of its health when it is asked."""
    found = connect(at, config).get("/v1/instances")
    if as_json:
        print_json(found)
        return
    columns = ["name", "state", "address", "leads", "epoch", "weight", "data_plane", "not_well"]
    print_table(f"{len(found)} instances", columns, [_row(one) for one in found])


def state_of(instance: Mapping[str, Any]) -> str:
    """One word for a person: well, not well, leaving, unreachable, timed out."""
    if instance["health"] is None:
        return str(instance["state"])
    if instance["is_leaving"]:
        return "leaving"
    return "well" if instance["health"]["is_well"] else "not well"


def troubles_of(instance: Mapping[str, Any]) -> Iterator[str]:
    """What is not well of it, a sentence for each part; why it has not answered, where it has not."""
    if instance["health"] is None:
        yield instance["reason"] or instance["state"]
        return
    for part, condition in instance["health"]["parts"].items():
        if not condition["is_well"]:
            yield f"{part}: {condition['sentence']}"


def _row(one: Mapping[str, Any]) -> dict[str, Any]:
    health = one["health"] or {"is_leading": None, "epoch": "?", "data_plane": "?"}
    return {
        "name": one["name"],
        "state": state_of(one),
        "address": one["rest_address"],
        "leads": "?" if health["is_leading"] is None else ("yes" if health["is_leading"] else "no"),
        "epoch": health["epoch"],
        "weight": f"{one['weight']:g}",
        "data_plane": health["data_plane"] or "no worker is ready",
        "not_well": list(troubles_of(one)),
    }
