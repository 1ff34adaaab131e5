"""Reads how far Pinot has consumed the topic of a table: a restarted server answers while it replays."""

from __future__ import annotations

from pinot.deployment.controller import PinotController

_CONSUMING = "CONSUMING"


def positions(controller: PinotController, table: str) -> dict[int, int]:
    """The next offset that Pinot reads, by partition of the table's topic; of replicas the one behind.

    A partition that no server reads is missing. Raises what the controller raises.
    """
    found: dict[int, int] = {}
    for replicas in controller.consuming(table).values():
        for replica in replicas:
            if replica["consumerState"] != _CONSUMING:
                continue
            for partition, offset in replica["partitionToOffsetMap"].items():
                number, position = int(partition), int(offset)
                found[number] = min(position, found.get(number, position))
    return found
