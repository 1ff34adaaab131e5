"""Detects copies that the destination deleted before their retention time. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from mirror.lane.offset_map import OffsetMap

_UNLIMITED: Final = -1


class RetentionRule(NamedTuple):
    """Retention of a destination topic. `milliseconds`: age at which records are deleted, -1 for never."""

    milliseconds: int

    def youngest_ms(self, now_ms: int) -> int | None:
        """Return the timestamp from which records must still exist, or None if records are never deleted."""
        return None if self.milliseconds == _UNLIMITED else now_ms - self.milliseconds


def retention_of(settings: Mapping[str, str]) -> RetentionRule | None:
    """Return the retention of a topic, or None if deletions cannot be predicted: unreadable settings, a size
    limit, or timestamps set by brokers."""
    try:
        policy, milliseconds = settings["cleanup.policy"], int(settings["retention.ms"])
        is_by_size = int(settings["retention.bytes"]) != _UNLIMITED
        replaces_time = settings["message.timestamp.type"] != "CreateTime"
    except (KeyError, ValueError):
        return None
    if replaces_time or ("delete" in policy and is_by_size):
        return None
    return RetentionRule(milliseconds if "delete" in policy else _UNLIMITED)


def deleted_copies(
    offset_map: OffsetMap, source: tuple[int, int], target_start: int, young_from: int
) -> tuple[int, int]:
    """Return the first source offset and the number of records whose copies were deleted too early.

    A record counts if its offset is in `source` and not below `young_from`, and its copy is before the start
    of the destination log.
    """
    first = max(source[0], young_from)
    behind = offset_map.source_behind(target_start)
    return first, offset_map.count(first, min(source[1], behind)) if behind is not None else 0
