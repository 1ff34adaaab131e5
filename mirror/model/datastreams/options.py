"""Options of a datastream.

One table defines the fields in /v1, the metadata keys and the command-line options.

`typed_keys` converts between fields of /v1 and metadata keys, `api.resources.datastreams.datastream_models`
builds the bodies of each group, and `headrace.console.datastreams.fields` the options of `headrace datastream
create` and `update`. Parsing and defaults are those of `policy` and `mirror.model.capacity.knobs`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from mirror.model.capacity.capacity import LEAST_CAPACITY
from mirror.model.capacity.knobs import LARGEST_HEADROOM, LEARNED, LEAST_MESSAGES, PLACEMENT, PLUG_IN_NAME
from mirror.model.datastreams import consumer_groups
from mirror.model.datastreams.audit_mode import (
    AUDIT_MODE,
    DEFAULT_AUDIT,
    LATENESS,
    LONGEST_LATENESS_SECONDS,
    AuditMode,
)
from mirror.model.datastreams.objectives import MONITOR_MODE, Mode
from mirror.model.datastreams.policy import (
    ADOPT_EXISTING,
    CANARY,
    DEFAULT_POLICY,
    EXCLUDED_SETTINGS,
    GROW_EXISTING,
    LARGEST_RATE,
    PREFIX,
    SHARED_DESTINATION,
    CopyPath,
    Guarantee,
    Isolation,
    OnLoss,
    OnRejection,
)
from mirror.model.load import LARGEST_CAPACITY


@dataclass(frozen=True, slots=True)
class DatastreamOption:
    """An option of a datastream, from which /v1 field, metadata key and command-line option are derived.

    `place`: path of the field in a /v1 document. `kind`: type of the value. `text`: description in the
    OpenAPI document. `help`, `flag`: description and name on the command line, if different (with
    underscores). `key`: metadata key that stores the option; empty if a field of the definition stores it.
    `default`: None if there is none, or if the settings provide it. `least`, `most`, `pattern`: bounds of the
    value. `word`: text that is permitted instead of a number.
    """

    place: tuple[str, ...]
    kind: Any
    text: str
    help: str = ""
    flag: str = ""
    key: str = ""
    default: Any = None
    least: float | None = None
    most: float | None = None
    pattern: str | None = None
    word: str = ""

    @property
    def field(self) -> str:
        """Name of the option's field in its group."""
        return self.place[-1]

    @property
    def name(self) -> str:
        """Name of the option on the command line, with underscores."""
        return self.flag or self.field


OPTIONS: Final = (
    DatastreamOption(
        ("destination", "shared"),
        bool,
        "Allow other datastreams that also set this option to write to the same topics.",
        "Allow other datastreams with this option to write to the same topics.",
        key=SHARED_DESTINATION,
        default=False,
    ),
    DatastreamOption(
        ("destination", "grow_existing"),
        bool,
        "Allow adding partitions to topics that existed before the datastream.",
        "Allow adding partitions to existing topics.",
        key=GROW_EXISTING,
        default=False,
    ),
    DatastreamOption(
        ("destination", "adopt"),
        bool,
        "Allow writing to topics that existed before the datastream. Null: allowed if every owner may adopt"
        " topics of the cluster, or if `grow_existing` is set.",
        "Allow copying into existing topics.",
        key=ADOPT_EXISTING,
    ),
    DatastreamOption(
        ("destination", "excluded_settings"),
        list[str],
        "Topic settings not copied to topics that Headrace creates, such as `segment.bytes`.",
        "Topic setting not to copy; repeatable.",
        flag="exclude_setting",
        key=EXCLUDED_SETTINGS,
        default=[],
    ),
    DatastreamOption(
        ("guarantee",),
        Guarantee,
        "Delivery guarantee for every record when processes, brokers and networks fail.",
        "Delivery guarantee.",
        key=f"{PREFIX}guarantee",
        default=DEFAULT_POLICY.guarantee,
    ),
    DatastreamOption(
        ("policies", "isolation"),
        Isolation,
        "Skip or copy records of aborted transactions.",
        "Isolation level of reads at the source.",
        key=f"{PREFIX}isolation",
        default=DEFAULT_POLICY.isolation,
    ),
    DatastreamOption(
        ("policies", "on_loss"),
        OnLoss,
        "Action if the source has lost records, or its log was replaced.",
        "Action if the source loses records.",
        key=f"{PREFIX}on-loss",
        default=DEFAULT_POLICY.on_loss,
    ),
    DatastreamOption(
        ("policies", "on_rejection"),
        OnRejection,
        "Action if the destination rejects a record: too large, no key, invalid timestamp.",
        "Action if the destination rejects a record.",
        key=f"{PREFIX}on-rejection",
        default=DEFAULT_POLICY.on_rejection,
    ),
    DatastreamOption(
        ("policies", "path"),
        CopyPath,
        "Copy whole batches without decompression, or decode records.",
        "Copy path: whole batches or single records.",
        key=f"{PREFIX}path",
        default=DEFAULT_POLICY.path,
    ),
    DatastreamOption(
        ("policies", "transforms"),
        list[str],
        "Plug-ins that transform every record, in order, each as `name:text`.",
        "Transform NAME:TEXT, in order; repeatable.",
        flag="transform",
        key=f"{PREFIX}transforms",
        default=[],
    ),
    DatastreamOption(
        ("quota", "bytes_per_second"),
        int,
        "Quota over all instances; null means unlimited.",
        "Quota in bytes per second.",
        key=f"{PREFIX}bytes-per-second",
        least=1,
        most=LARGEST_RATE,
    ),
    DatastreamOption(("limits", "min_tasks"), int, "Minimum number of tasks.", default=1, least=1),
    DatastreamOption(("limits", "max_tasks"), int, "Maximum number of tasks.", least=1),
    DatastreamOption(("limits", "max_partitions_per_task"), int, "Maximum partitions per task.", least=1),
    DatastreamOption(
        ("placement", "capacity_bytes_per_second"),
        int,
        "Capacity of one task in bytes per second; `learned`: measured rate at which one core copies.",
        "Task capacity in bytes/s, or learned.",
        flag="capacity",
        key=PLACEMENT,
        least=LEAST_CAPACITY,
        most=LARGEST_CAPACITY,
        word=LEARNED,
    ),
    DatastreamOption(
        ("placement", "capacity_messages_per_second"),
        int,
        "Capacity of one task in messages per second.",
        "Task capacity in messages/s.",
        flag="capacity_messages",
        key=PLACEMENT,
        least=LEAST_MESSAGES,
        most=LARGEST_CAPACITY,
    ),
    DatastreamOption(
        ("placement", "utilisation_percent"),
        int,
        "Share of the capacity that placement fills.",
        "Percentage of the capacity to fill.",
        flag="utilisation",
        key=PLACEMENT,
        least=1,
        most=100,
    ),
    DatastreamOption(
        ("placement", "scale_in_headroom"),
        float,
        "Tasks are removed only if this share of each remaining task stays free.",
        "Share of each task to keep free when the number of tasks is reduced.",
        flag="headroom",
        key=PLACEMENT,
        least=0,
        most=LARGEST_HEADROOM,
    ),
    DatastreamOption(
        ("placement", "strategy"),
        str,
        "Strategy that decides the number of tasks and their partitions: `assigner`, `simple`, `auto` (the"
        " assigner if it is installed), or the name of a plug-in.",
        "Placement strategy: assigner, simple, auto, or a plug-in.",
        key=PLACEMENT,
        pattern=PLUG_IN_NAME,
    ),
    DatastreamOption(
        ("placement", "load_provider"),
        str,
        "Source of partition loads: `self`, `pinot`, the name of a plug-in, or `none`: tasks are planned by"
        " partition count even if loads are known.",
        "Provider of loads: self, pinot, a plug-in, or none (placement by partition count).",
        key=PLACEMENT,
        pattern=PLUG_IN_NAME,
    ),
    DatastreamOption(
        ("monitor",),
        Mode,
        "Reaction of the monitor to a breach: request a rebalance that can help, or only report the"
        " rebalance; null: default from the monitor's settings.",
        "Reaction of the monitor to a breach.",
        key=MONITOR_MODE,
    ),
    DatastreamOption(
        ("canary",),
        bool,
        "Write one record per second to a separate topic at the source, and measure its arrival at the"
        " destination.",
        "Measure delivery with one record a second.",
        key=CANARY,
        default=False,
    ),
    DatastreamOption(
        ("audit",),
        AuditMode,
        "Continuous comparison of the source with the destination.",
        "Continuous audit.",
        key=AUDIT_MODE,
        default=DEFAULT_AUDIT,
    ),
    DatastreamOption(
        ("audit_lateness_seconds",),
        int,
        "Longest time from the timestamp of a record to its arrival at the source. Null: the value of"
        " the settings.",
        "Lateness of records in seconds.",
        flag="audit_lateness",
        key=LATENESS,
        least=1,
        most=LONGEST_LATENESS_SECONDS,
    ),
    DatastreamOption(
        ("groups", "include"),
        str,
        "Consumer groups whose committed offsets are copied: a regular expression that must match the"
        " whole name. Null: none.",
        "Groups whose offsets are copied (regex).",
        flag="groups",
        key=consumer_groups.INCLUDE,
    ),
    DatastreamOption(
        ("groups", "exclude"),
        str,
        "Consumer groups whose committed offsets are not copied: a regular expression that must match the"
        " whole name.",
        "Regular expression of groups to exclude.",
        flag="exclude_groups",
        key=consumer_groups.EXCLUDE,
    ),
    DatastreamOption(
        ("groups", "interval_seconds"),
        float,
        "Time between two synchronisations of the groups. Below 4, the lanes of the datastream store a"
        " checkpoint twice in this time.",
        "Seconds between copies of committed offsets.",
        flag="groups_interval",
        key=consumer_groups.INTERVAL,
        default=consumer_groups.DEFAULT_SECONDS,
        least=consumer_groups.SHORTEST_SECONDS,
        most=consumer_groups.LONGEST_SECONDS,
    ),
    DatastreamOption(
        ("groups", "direction"),
        consumer_groups.GroupDirection,
        "Direction in which committed offsets are copied: to the destination only, or to the cluster at which"
        " the group does not read.",
        "Direction in which offsets are copied.",
        flag="groups_direction",
        key=consumer_groups.DIRECTION,
        default=consumer_groups.GroupDirection.FORWARD,
    ),
)
"""All options except topics, clusters, start and objectives."""


_NAMING: Final = "names of destination topics cannot change: earlier records are stored under them"
_START: Final = "the start cannot change after creation"
FIXED_FIELDS: Final[Mapping[tuple[str, ...], str]] = {
    ("name",): "the name cannot change: positions and producer ids are stored under it",
    ("source", "cluster"): "the source cannot change: stored positions are offsets of that cluster",
    ("destination", "cluster"): (
        "the destination cannot change: positions are stored next to the copied records"
    ),
    ("destination", "name"): _NAMING,
    ("start",): _START,
    ("start_positions",): _START,
}
"""Fields that cannot change after the creation of a datastream, with the reason. All other fields may
change."""


def options_of(group: str) -> Iterator[DatastreamOption]:
    """Yield the options whose field in /v1 is `group`, or is inside the object `group`."""
    return (option for option in OPTIONS if option.place[0] == group)
