"""Metadata of a datastream: known keys, and validation of their values.

Unknown keys are kept unchanged for other tools; only their size and characters are checked. Unknown keys with
the reserved prefix `headrace.` are rejected; see `mirror.model.datastreams.policy`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from mirror.errors import InvalidRequest
from mirror.model import bounds
from mirror.model.capacity.catch_up import CATCH_UP, read_catch_up
from mirror.model.capacity.knobs import PLACEMENT, read_knobs
from mirror.model.datastreams import consumer_groups
from mirror.model.datastreams.audit_mode import AUDIT_MODE, LATENESS, read_audit_mode, read_lateness
from mirror.model.datastreams.objectives import MONITOR_MODE, OBJECTIVES, read_mode, read_objectives
from mirror.model.datastreams.policy import EXCLUDED_SETTINGS, read_excluded_settings
from mirror.model.datastreams.secrets import holds_secret
from mirror.model.datastreams.start_positions import START_POSITIONS, read_positions
from mirror.wording import counted

OWNER: Final = "owner"
TASK_PREFIX: Final = "system.taskPrefix"
GROUP_ID: Final = "group.id"
CREATED_MS: Final = "system.creation.ms"
TTL_MS: Final = "system.ttl.ms"
RESTART: Final = "system.restart"
"""Metadata key of the last restart.

The value of the key contains the time (epoch ms), and the start position, which is a word or a timestamp
(epoch ms).
"""
BROKERS: Final = "system.destination.KafkaBrokers"
MANAGED: Final = "system.IsConnectorManagedDestination"
UUID: Final = "datastreamUUID"
"""Idempotency key that Brooklin's client generates for each creation and repeats in retries."""

RESTART_WORDS: Final = ("earliest", "earliest-local")
"""Start positions that a restart may use. Any other would skip records."""
_LARGEST_BYTES: Final = 100_000
"""Maximum total size of keys and values in bytes of UTF-8. JSON escapes can multiply it by six."""
_MOST_KEYS: Final = 1_000


def _name(label: str, value: str) -> object:
    return bounds.line(label, value, shortest=0)


def _sentence(label: str, value: str) -> object:
    return bounds.text(label, value, bounds.LONGEST_REASON)


def _milliseconds(label: str, value: str) -> object:
    return bounds.digits(label, value, 0, bounds.LARGEST_MS)


def _restart(label: str, value: str) -> object:
    restarted_ms, _, start = value.partition(" ")
    bounds.digits(label, restarted_ms, 0, bounds.LARGEST_MS)
    return start in RESTART_WORDS or bounds.digits(label, start, 0, bounds.LARGEST_MS)


_RULES: Final[Mapping[str, Callable[[str, str], object]]] = {
    EXCLUDED_SETTINGS: read_excluded_settings,
    OWNER: _sentence,
    TASK_PREFIX: _name,
    GROUP_ID: _name,
    CREATED_MS: _milliseconds,
    TTL_MS: _milliseconds,
    RESTART: _restart,
    OBJECTIVES: read_objectives,
    MONITOR_MODE: read_mode,
    AUDIT_MODE: read_audit_mode,
    LATENESS: read_lateness,
    consumer_groups.INCLUDE: consumer_groups.read_expression,
    consumer_groups.EXCLUDE: consumer_groups.read_expression,
    consumer_groups.INTERVAL: consumer_groups.read_interval,
    consumer_groups.DIRECTION: consumer_groups.read_direction,
    CATCH_UP: read_catch_up,
    PLACEMENT: read_knobs,
    START_POSITIONS: read_positions,
}


def checked_metadata(value: object) -> Mapping[str, str]:
    """Validate metadata. Raises InvalidRequest with the invalid key."""
    metadata = bounds.mapping("metadata", value)
    if len(metadata) > _MOST_KEYS:
        raise InvalidRequest(
            f"metadata has {counted(len(metadata), 'key')}", advice=f"at most {_MOST_KEYS} are allowed"
        )
    size = 0
    for key, inner in metadata.items():
        bounds.line("a key of metadata", key)
        found = _value(key, inner)
        rule = _RULES.get(key)
        if rule is not None:
            rule(f"metadata {key}", found)
        size += len(key.encode()) + len(found.encode())
    if size > _LARGEST_BYTES:
        raise InvalidRequest(f"metadata has {size} bytes", advice=f"at most {_LARGEST_BYTES} are allowed")
    return metadata


def _value(key: str, value: object) -> str:
    """Return the value as text. Raises InvalidRequest, whose message contains no secrets."""
    try:
        return bounds.text(f"metadata {key}", value, _LARGEST_BYTES)
    except InvalidRequest:
        if holds_secret(key, str(value)):
            raise InvalidRequest(f"metadata {key} cannot be stored because it looks like a secret") from None
        raise
