"""Reaction of the monitor to a breach of a datastream's objectives."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from mirror.model import bounds

MONITOR_MODE: Final = "headrace-monitor"
"""Metadata key of the mode. The metadata key lacks the prefix `headrace.`, so that older versions keep it."""


class Mode(StrEnum):
    """Reaction of the monitor to a breach if a rebalance can help."""

    ACT = "act"
    """Request the rebalance."""
    OBSERVE = "observe"
    """Only report the rebalance that the monitor would request."""


def read_mode(label: str, value: object) -> Mode:
    """Parse a mode. Raises InvalidRequest."""
    return bounds.choice(label, Mode, value)


def mode_from(metadata: Mapping[str, str]) -> Mode | None:
    """Return a datastream's mode, or None for the monitor's default. Raises InvalidRequest."""
    found = metadata.get(MONITOR_MODE)
    return None if found is None else read_mode(f"metadata {MONITOR_MODE}", found)
