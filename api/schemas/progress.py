"""Progress of lanes on /v1."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict

from mirror.lane.progress import LaneProgress
from mirror.ports import LaneKey


class LaneProgressAnswer(BaseModel):
    """One partition, as it was stored last; docs/data-plane.md explains the classes of `offsets`."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    topic: str
    partition: int
    destination_topic: str
    start_offset: int
    """Where the ledger begins."""
    next_offset: int
    """The checkpoint: everything below is accounted for."""
    offsets: dict[str, int]
    """Source offsets by what became of them; they add up to the range."""
    is_balanced: bool
    map_runs: int
    """Runs of the offset map."""
    life: int
    """Source topics that bore the name before this one."""
    paused: str
    """Why the partition paused itself; empty when it has not."""
    gaps: list[str]
    """What was lost, newest last."""
    offset_map: list[tuple[int, int, int]] | None = None
    """Runs of source offset, destination offset and length, when they were asked for."""

    @classmethod
    def from_progress(cls, key: LaneKey, one: LaneProgress, *, with_map: bool) -> LaneProgressAnswer:
        """The JSON form."""
        document: dict[str, Any] = {
            "topic": key.partition.topic,
            "partition": key.partition.partition,
            "destination_topic": one.target_topic,
            "start_offset": one.ledger.start,
            "next_offset": one.next_offset,
            "offsets": one.ledger.by_fate(),
            "is_balanced": one.ledger.is_balanced,
            "map_runs": len(one.offset_map),
            "life": one.life,
            "paused": str(one.pause["reason"]) if one.pause else "",
            "gaps": one.gaps,
        }
        return cls(**document, offset_map=[tuple(run) for run in one.offset_map] if with_map else None)
