"""How a datastream is copied: what is promised, what is seen of the source, what happens to trouble."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from mirror.errors import InvalidRequest
from mirror.model import bounds
from mirror.wording import counted

PREFIX: Final = "headrace."
"""Keys of a datastream's metadata that begin so are choices of its policy."""
SHARED_DESTINATION: Final = f"{PREFIX}shared-destination"
"""`true` in the metadata of all datastreams that write one destination topic together on purpose."""
GROW_EXISTING: Final = f"{PREFIX}grow-existing"
"""`true`: destination topics that were there before the datastream may get more partitions."""
ADOPT_EXISTING: Final = f"{PREFIX}adopt-existing"
"""`true`: the datastream writes into destination topics that were there before it; `false`: never."""
EXCLUDED_SETTINGS: Final = f"{PREFIX}excluded-settings"
"""Topic settings that are not carried to topics that the datastream creates, one on a line."""

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
"""Topic settings that are carried over at creation. Not carried: what belongs to a cluster's own
layout (replicas, throttles, min.insync.replicas), `compression.type` and `message.timestamp.type`
(forced below, so that batches arrive as they were)."""

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
"""Carried settings that decide which records a topic accepts and keeps: they are also carried where the
brokers of the source supply them, and those of the destination would supply others."""

FORCED_SETTINGS: Final = {"compression.type": "producer", "message.timestamp.type": "CreateTime"}

LARGEST_RATE: Final = 10**15
"""Bytes per second: a petabyte."""
_MOST_TRANSFORMS: Final = 50
_MOST_TRANSFORM_BYTES: Final = 32 * 1024
"""Of all transforms of a datastream, as JSON: each lane is described to its worker with them."""


class Guarantee(StrEnum):
    """Promise for every record when processes, brokers and networks fail (docs/data-plane/guarantees.md)."""

    AT_LEAST_ONCE = "at-least-once"
    """No loss, order kept; a crash may repeat what was sent since the last checkpoint."""
    EFFECTIVELY_ONCE = "effectively-once"
    """As above, and after a crash the destination's tail is compared, so that nothing is repeated."""
    EXACTLY_ONCE = "exactly-once"
    """Records and checkpoint in one transaction; consumers read committed data."""


class Isolation(StrEnum):
    """Which records of the source count."""

    READ_COMMITTED = "read-committed"
    """Records of aborted transactions never reach the destination; open ones are waited for."""
    READ_UNCOMMITTED = "read-uncommitted"
    """Every record, whatever became of its transaction."""


class OnLoss(StrEnum):
    """When records that should have been copied are gone from the source, or it is another log."""

    HALT = "halt"
    """Pause the partition and say what is missing; a person decides."""
    CONTINUE = "continue"
    """Note the gap in the ledger and go on behind it."""


class OnRejection(StrEnum):
    """When the destination refuses a record for what it is (too large, no key, its timestamp)."""

    PAUSE = "pause"
    """Pause the partition and try again later: the destination's settings may change."""
    DEAD_LETTER = "dead-letter"
    """Put the record into the dead-letter topic and go on."""
    SKIP = "skip"
    """Leave the record out, count it as filtered, and go on."""


class CopyPath(StrEnum):
    """How batches are treated."""

    AUTO = "auto"
    """Whole batches pass unopened where they can; small ones are merged when they pile up."""
    PASSTHROUGH = "passthrough"
    """As auto, but small batches are never merged."""
    RECORD = "record"
    """Every record is decoded and encoded again."""


@dataclass(frozen=True, slots=True)
class CopyPolicy:
    """The choices of one datastream. `bytes_per_second` is its quota, 0 for none;
    `transforms` are names of plug-ins, applied in order. Raises InvalidRequest for contradictions."""

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
                "transforms look into records, passthrough does not", advice="choose the path auto"
            )
        if self.guarantee is Guarantee.EXACTLY_ONCE and self.isolation is not Isolation.READ_COMMITTED:
            raise InvalidRequest(
                "exactly-once copies committed records only", advice="choose the isolation read-committed"
            )


DEFAULT_POLICY = CopyPolicy()

_CHOICES: Final[dict[str, type[StrEnum]]] = {
    "guarantee": Guarantee,
    "isolation": Isolation,
    "on-loss": OnLoss,
    "on-rejection": OnRejection,
    "path": CopyPath,
}
_SWITCHES: Final = frozenset({SHARED_DESTINATION, GROW_EXISTING, ADOPT_EXISTING})


def policy_from(metadata: Mapping[str, str]) -> CopyPolicy:
    """The policy that a datastream's metadata asks for, so that every client can, also Brooklin's.

    `headrace.guarantee`, `.isolation`, `.on-loss`, `.on-rejection`, `.path` as the enums above,
    `headrace.bytes-per-second`, and `headrace.transforms` with a line for each; switches of the datastream
    that are no matter of copying are checked too. Raises InvalidRequest.
    """
    asked: dict[str, Any] = {}
    for key, value in metadata.items():
        if not key.startswith(PREFIX):
            continue
        name = key.removeprefix(PREFIX)
        kind = _CHOICES.get(name)
        if key == EXCLUDED_SETTINGS:
            continue  # checked by a rule of the metadata
        if key in _SWITCHES:
            is_on(metadata, key)
        elif kind is not None:
            asked[name.replace("-", "_")] = bounds.choice(f"metadata {key}", kind, value)
        elif name == "bytes-per-second":
            asked["bytes_per_second"] = bounds.digits(f"metadata {key}", value, 0, LARGEST_RATE)
        elif name == "transforms":
            asked["transforms"] = _transforms(f"metadata {key}", value)
        else:
            switches = sorted(switch.removeprefix(PREFIX) for switch in _SWITCHES)
            known = ", ".join([*_CHOICES, "bytes-per-second", "transforms", "excluded-settings", *switches])
            raise InvalidRequest(f"metadata {key} means nothing", advice=f"behind {PREFIX} may stand {known}")
    return CopyPolicy(**asked) if asked else DEFAULT_POLICY


def is_on(metadata: Mapping[str, str], key: str) -> bool:
    """Whether a switch is `true`; without the key it is not. Raises InvalidRequest."""
    value = metadata.get(key, "false")
    if value not in {"true", "false"}:
        raise InvalidRequest(f"metadata {key} cannot be {bounds.shown(value)}", advice="choose true or false")
    return value == "true"


def lines_of(value: str) -> tuple[str, ...]:
    """The transforms that a value of `headrace.transforms` names."""
    return tuple(one.strip() for one in value.splitlines() if one.strip())


def _transforms(what: str, value: str) -> tuple[str, ...]:
    names = lines_of(value)
    if len(names) > _MOST_TRANSFORMS:
        raise InvalidRequest(
            f"{what} has {counted(len(names), 'line')}", advice=f"{_MOST_TRANSFORMS} are possible"
        )
    size = len(json.dumps(names))
    if size > _MOST_TRANSFORM_BYTES:
        raise InvalidRequest(
            f"{what} takes {size} bytes", advice=f"{_MOST_TRANSFORM_BYTES} are possible (as JSON in ASCII)"
        )
    return tuple(bounds.line(what, one, bounds.LONGEST_REASON) for one in names)


def read_excluded_settings(what: str, value: str) -> frozenset[str]:
    """Parse setting names, one on a line. Raises InvalidRequest for a setting that is not carried anyway."""
    return checked_excluded_settings(what, lines_of(value))


def checked_excluded_settings(what: str, names: tuple[str, ...]) -> frozenset[str]:
    """Return the names. Raises InvalidRequest for a setting that is not carried anyway."""
    for name in names:
        if name not in CARRIED_SETTINGS:
            raise InvalidRequest(
                f"{what}: {bounds.shown(name)} is not a setting that is carried",
                advice=f"choose of {', '.join(sorted(CARRIED_SETTINGS))}",
            )
    return frozenset(names)


def excluded_settings(metadata: Mapping[str, str]) -> frozenset[str]:
    """Return the settings that a datastream does not carry. Raises InvalidRequest."""
    return read_excluded_settings(f"metadata {EXCLUDED_SETTINGS}", metadata.get(EXCLUDED_SETTINGS, ""))
