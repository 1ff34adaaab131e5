"""What the monitor does about a breach of a datastream's objectives."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from mirror.model import bounds

MONITOR_MODE: Final = "headrace-monitor"
"""Key of the metadata that has it. As `headrace-objectives`, it does not begin with `headrace.`: former
versions keep it."""


class Mode(StrEnum):
    """Whether it asks for a rebalance that can help."""

    ACT = "act"
    """It does."""
    OBSERVE = "observe"
    """It says what it would have done."""


def read_mode(what: str, value: object) -> Mode:
    """Raises InvalidRequest."""
    return bounds.choice(what, Mode, value)


def mode_from(metadata: Mapping[str, str]) -> Mode | None:
    """That of a datastream; None: as the monitor's settings say. Raises InvalidRequest."""
    found = metadata.get(MONITOR_MODE)
    return None if found is None else read_mode(f"metadata {MONITOR_MODE}", found)
