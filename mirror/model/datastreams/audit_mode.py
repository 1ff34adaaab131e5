"""Extent of the continuous audit of a datastream, and its lateness."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from mirror.model import bounds

AUDIT_MODE: Final = "headrace-audit"
LATENESS: Final = "headrace-audit-lateness"
"""Metadata keys of the audit mode and the lateness. They lack the prefix `headrace.`, so that older versions
keep them."""
LONGEST_LATENESS_SECONDS: Final = 604_800


class AuditMode(StrEnum):
    """Data that the audit of a datastream compares (docs/data-plane/continuous-audit.md)."""

    OFF = "off"
    """No audit."""
    COUNTS = "counts"
    """Record counts by event-time window, from the offsets of both logs and the offset map. No records are
    read."""
    SAMPLED = "sampled"
    """As `counts`, and also every record of 1 in 20 windows."""
    FULL = "full"
    """Every record is compared."""


DEFAULT_AUDIT: Final = AuditMode.COUNTS


def read_audit_mode(label: str, value: object) -> AuditMode:
    """Parse an audit mode. Raises InvalidRequest."""
    return bounds.choice(label, AuditMode, value)


def audit_mode_from(metadata: Mapping[str, str]) -> AuditMode:
    """Return the audit mode of a datastream. Raises InvalidRequest."""
    found = metadata.get(AUDIT_MODE)
    return DEFAULT_AUDIT if found is None else read_audit_mode(f"metadata {AUDIT_MODE}", found)


def read_lateness(label: str, value: str) -> object:
    """Validate a lateness in seconds. Raises InvalidRequest."""
    return bounds.digits(label, value, 1, LONGEST_LATENESS_SECONDS)


def lateness_from(metadata: Mapping[str, str]) -> int | None:
    """Return the lateness of a datastream in seconds, or None for the value in the settings. Raises
    InvalidRequest."""
    found = metadata.get(LATENESS)
    if found is None:
        return None
    read_lateness(f"metadata {LATENESS}", found)
    return int(found)
