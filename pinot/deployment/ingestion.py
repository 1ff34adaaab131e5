"""Reads how far Pinot has consumed a table's topic. A restarted server already responds to queries while it
rereads the topic."""

from __future__ import annotations

from pinot.deployment.controller import PinotController
from pinot.rows import checked_rows

_CONSUMING = "CONSUMING"


@checked_rows
def positions(controller: PinotController, table: str) -> dict[int, int]:
    """Map each partition of a table's topic to the next offset that Pinot will consume.

    If replicas differ, the lowest offset is returned. Partitions without a consuming server are missing.
    Raises the errors of the controller.
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
