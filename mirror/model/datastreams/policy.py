"""Copy policy of a datastream: delivery guarantee, isolation, and reactions to data loss and rejections."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, get_type_hints

from mirror.errors import InvalidRequest
from mirror.model import bounds
from mirror.wording import counted

PREFIX: Final = "headrace."
"""Prefix of the metadata keys that set the copy policy."""
SHARED_DESTINATION: Final = f"{PREFIX}shared-destination"
"""Metadata key that must be `true` for all datastreams that share a destination topic."""
GROW_EXISTING: Final = f"{PREFIX}grow-existing"
"""Metadata key that permits adding partitions to destination topics older than the datastream."""
ADOPT_EXISTING: Final = f"{PREFIX}adopt-existing"
"""Metadata key that permits (`true`) or forbids writing to destination topics older than the datastream."""
CANARY: Final = f"{PREFIX}canary"
"""Metadata key of the canary: the monitor writes one record a second to a topic of the datastream."""
EXCLUDED_SETTINGS: Final = f"{PREFIX}excluded-settings"
"""Metadata key of topic settings that new destination topics do not get, one per line."""

CARRIED_SETTINGS: Final = frozenset(
    {
        "cleanup.policy",
        "delete.retention.ms",
        "max.message.bytes",
        "message.timestamp.after.max.ms",
        "message.timestamp.before.max.ms",
        "min.cleanable.dirty.ratio",
        "min.compaction.lag.ms",
        "max.compaction.lag.ms",
        "retention.bytes",
        "retention.ms",
        "segment.bytes",
        "segment.ms",
    }
)
"""Topic settings that are copied to new destination topics.

Settings that depend on the cluster (replicas, throttles, min.insync.replicas) are not copied.
`compression.type` and `message.timestamp.type` have fixed values (see `FORCED_SETTINGS`), so that batches
arrive unchanged.
"""

KEEPING_SETTINGS: Final = frozenset(
    {
        "cleanup.policy",
        "max.message.bytes",
        "message.timestamp.after.max.ms",
        "message.timestamp.before.max.ms",
        "retention.bytes",
        "retention.ms",
    }
)
"""Copied settings that control which records a topic accepts and retains.

If the source topic inherits a broker default, the default is copied if that of the destination differs.
"""

FORCED_SETTINGS: Final = {"compression.type": "producer", "message.timestamp.type": "CreateTime"}

LARGEST_RATE: Final = 10**15
"""Maximum quota in bytes per second: a petabyte."""
_MOST_TRANSFORMS: Final = 50
_MOST_TRANSFORM_BYTES: Final = 32 * 1024
"""Maximum size of all transforms of a datastream as JSON.

The spec of every lane contains all transforms.
"""


class Guarantee(StrEnum):
    """Delivery guarantee when processes, brokers or networks fail (docs/data-plane/guarantees.md)."""

    AT_LEAST_ONCE = "at-least-once"
    """No loss, and order is preserved. After a crash, records since the last checkpoint may be repeated."""
    EFFECTIVELY_ONCE = "effectively-once"
    """As at-least-once, but no record is repeated: after a crash, the lane compares the end of the
    destination log with the source."""
    EXACTLY_ONCE = "exactly-once"
    """Records and checkpoint in one transaction; consumers read committed data."""


class Isolation(StrEnum):
    """Isolation level of reads at the source."""

    READ_COMMITTED = "read-committed"
    """Records of aborted transactions are never copied; open transactions delay copying."""
    READ_UNCOMMITTED = "read-uncommitted"
    """Read every record, regardless of its transaction."""


class OnLoss(StrEnum):
    """Reaction if the source has deleted uncopied records, or its log was replaced."""

    HALT = "halt"
    """Pause the partition and report the missing records, so that an operator can decide."""
    CONTINUE = "continue"
    """Record the missing offsets in the ledger, and continue after them."""


class OnRejection(StrEnum):
    """Reaction if the destination rejects a record, for example because it is too large."""

    PAUSE = "pause"
    """Pause the partition and retry later, because the destination's settings may change."""
    DEAD_LETTER = "dead-letter"
    """Write the record to the dead-letter topic and continue."""
    SKIP = "skip"
    """Skip the record, count it as filtered, and continue."""


class CopyPath(StrEnum):
    """Method of copying: whole batches, or single records."""

    AUTO = "auto"
    """Copy whole batches without decompression if possible. Merge small batches when they accumulate."""
    PASSTHROUGH = "passthrough"
    """Like auto, but never merge small batches."""
    RECORD = "record"
    """Decode and encode every record."""


@dataclass(frozen=True, slots=True)
class CopyPolicy:
    """Copy policy of one datastream. Raises InvalidRequest for contradictions.

    `bytes_per_second`: quota of the datastream, 0 for none. `transforms`: names of plug-ins, applied in
    order.
    """

    guarantee: Guarantee = Guarantee.EFFECTIVELY_ONCE
    isolation: Isolation = Isolation.READ_COMMITTED
    on_loss: OnLoss = OnLoss.HALT
    on_rejection: OnRejection = OnRejection.PAUSE
    path: CopyPath = CopyPath.AUTO
    bytes_per_second: int = 0
    transforms: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        bounds.integer("a datastream's quota in bytes per second", self.bytes_per_second, 0, LARGEST_RATE)
        if self.transforms and self.path is CopyPath.PASSTHROUGH:
            raise InvalidRequest(
                "transforms cannot be applied on the passthrough path, which never opens batches",
                advice="choose the path auto",
            )
        if self.guarantee is Guarantee.EXACTLY_ONCE and self.isolation is not Isolation.READ_COMMITTED:
            raise InvalidRequest(
                "exactly-once requires read-committed", advice="choose the isolation read-committed"
            )


DEFAULT_POLICY = CopyPolicy()

_CHOICES: Final[dict[str, type[StrEnum]]] = {
    name.replace("_", "-"): kind
    for name, kind in get_type_hints(CopyPolicy).items()
    if isinstance(kind, type) and issubclass(kind, StrEnum)
}
"""Enumeration of each policy key, without the prefix `headrace.`."""
_SWITCHES: Final = frozenset({SHARED_DESTINATION, GROW_EXISTING, ADOPT_EXISTING, CANARY})


def policy_from(metadata: Mapping[str, str]) -> CopyPolicy:
    """Return the copy policy in the metadata of a datastream. Raises InvalidRequest.

    Keys: `headrace.guarantee`, `.isolation`, `.on-loss`, `.on-rejection` and `.path` with values of the enums
    above, `headrace.bytes-per-second`, and `headrace.transforms`, one per line. Boolean options that do not
    affect copying are validated, too.
    """
    fields: dict[str, Any] = {}
    for key, value in metadata.items():
        if not key.startswith(PREFIX):
            continue
        name = key.removeprefix(PREFIX)
        kind = _CHOICES.get(name)
        if key == EXCLUDED_SETTINGS:
            continue  # validated with the metadata
        if key in _SWITCHES:
            is_on(metadata, key)
        elif kind is not None:
            fields[name.replace("-", "_")] = bounds.choice(f"metadata {key}", kind, value)
        elif name == "bytes-per-second":
            fields["bytes_per_second"] = bounds.digits(f"metadata {key}", value, 0, LARGEST_RATE)
        elif name == "transforms":
            fields["transforms"] = _transforms(f"metadata {key}", value)
        else:
            switches = sorted(switch.removeprefix(PREFIX) for switch in _SWITCHES)
            known = ", ".join([*_CHOICES, "bytes-per-second", "transforms", "excluded-settings", *switches])
            raise InvalidRequest(f"unknown metadata key {key}", advice=f"known keys after {PREFIX}: {known}")
    return CopyPolicy(**fields) if fields else DEFAULT_POLICY


def is_on(metadata: Mapping[str, str], key: str) -> bool:
    """Return whether a boolean option is `true`. A missing key means false. Raises InvalidRequest."""
    value = metadata.get(key, "false")
    if value not in {"true", "false"}:
        raise InvalidRequest(f"metadata {key} cannot be {bounds.shown(value)}", advice="choose true or false")
    return value == "true"


def lines_of(value: str) -> tuple[str, ...]:
    """Return the transforms in a value of `headrace.transforms`."""
    return tuple(splitline.strip() for splitline in value.splitlines() if splitline.strip())


def _transforms(label: str, value: str) -> tuple[str, ...]:
    names = lines_of(value)
    if len(names) > _MOST_TRANSFORMS:
        raise InvalidRequest(
            f"{label} has {counted(len(names), 'line')}", advice=f"at most {_MOST_TRANSFORMS} are allowed"
        )
    size = len(json.dumps(names))
    if size > _MOST_TRANSFORM_BYTES:
        raise InvalidRequest(
            f"{label} is too large: {size} bytes",
            advice=f"at most {_MOST_TRANSFORM_BYTES} are allowed (as ASCII JSON)",
        )
    return tuple(bounds.line(label, name, bounds.LONGEST_REASON) for name in names)


def read_excluded_settings(label: str, value: str) -> frozenset[str]:
    """Parse names of topic settings, one per line. Raises InvalidRequest for a setting that is never
    copied."""
    return checked_excluded_settings(label, lines_of(value))


def checked_excluded_settings(label: str, names: tuple[str, ...]) -> frozenset[str]:
    """Return the setting names unchanged. Raises InvalidRequest for a setting that is never copied."""
    for name in names:
        if name not in CARRIED_SETTINGS:
            raise InvalidRequest(
                f"{label}: setting {bounds.shown(name)} is never copied",
                advice=f"choose from {', '.join(sorted(CARRIED_SETTINGS))}",
            )
    return frozenset(names)


def excluded_settings(metadata: Mapping[str, str]) -> frozenset[str]:
    """Return the topic settings that a datastream does not copy to new topics. Raises InvalidRequest."""
    return read_excluded_settings(f"metadata {EXCLUDED_SETTINGS}", metadata.get(EXCLUDED_SETTINGS, ""))
