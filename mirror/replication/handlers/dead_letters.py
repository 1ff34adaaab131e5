"""Writes rejected records to dead-letter topics, one for each destination topic.

A dead-letter topic is created without the limits that make the destination topic reject records. The limits
of an existing dead-letter topic are checked first, so that the error can name the setting to change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from mirror.client.cluster import Cluster
from mirror.client.log_writer import write_patiently
from mirror.errors import HeadraceError, RecordRejected, Refused
from mirror.model.topics import DEAD_LETTER_SUFFIX, TopicPartition
from mirror.protocol.batches.encoder import write_batch
from mirror.protocol.batches.records import Record
from mirror.protocol.codes import Code
from mirror.protocol.control.topics import TopicSetting, create_topic, describe_settings

_NO_LIMIT: Final = str(2**63 - 1)
_LARGEST_BATCH: Final = 100 * 1024 * 1024
"""Kafka's default limit of the request size (`socket.request.max.bytes`)."""
_AFTER: Final = "message.timestamp.after.max.ms"
_BEFORE: Final = "message.timestamp.before.max.ms"
_APART: Final = "message.timestamp.difference.max.ms"
SETTINGS: Final[Mapping[str, str]] = {
    "cleanup.policy": "delete",
    "max.message.bytes": str(_LARGEST_BATCH),
    "message.timestamp.type": "CreateTime",
    _BEFORE: _NO_LIMIT,
    _AFTER: _NO_LIMIT,
    _APART: _NO_LIMIT,
    "retention.ms": "-1",
}
"""Settings of a new dead-letter topic.

The timestamp limits depend on the broker version. Without `retention.ms`, dead letters with old timestamps
would expire unread.
"""
_OF_NEW_BROKERS: Final = frozenset(SETTINGS) - {_APART}


class DeadLetterTopic:
    """Writes to the dead-letter topic of one destination topic."""

    def __init__(self, cluster: Cluster, destination_topic: str, replication: int) -> None:
        self.name = destination_topic + DEAD_LETTER_SUFFIX
        self._cluster = cluster
        self._beside = destination_topic
        self._replication = replication

    async def write(self, letters: Sequence[Record], now_ms: int) -> None:
        """Append the dead letters in order, creating the topic if it is missing. Raises RecordRejected with
        the topic setting to change, Refused, Unreachable."""
        batches = [write_batch([letter]) for letter in letters]
        await self._cluster.refresh([self.name])
        if self._cluster.topics[self.name].error == Code.UNKNOWN_TOPIC_OR_PARTITION:
            await self._create()
        else:
            settings = await self._settings_of(self.name)
            if settings:
                largest = max(len(batch) for batch in batches)
                self._refuse(obstacles(settings, letters, largest, now_ms))
        for batch in batches:
            await write_patiently(self._cluster, TopicPartition(self.name, 0), batch)

    async def _create(self) -> None:
        known = await self._settings_of(self._beside) or _OF_NEW_BROKERS
        wanted = {key: value for key, value in SETTINGS.items() if key in known}
        call = create_topic(self.name, 1, self._replication, wanted)
        outcome = await self._cluster.ask_controller(call)
        if outcome.error not in (Code.NONE, Code.TOPIC_ALREADY_EXISTS):
            doing = f"cannot create the dead-letter topic {self.name}"
            right = f"Create on topic {self.name} or on the cluster"
            error = self._cluster.error(outcome.error, doing, right, outcome.message)
            raise error if error.retriable else _with_advice(error, self.name, wanted)

    async def _settings_of(self, topic: str) -> Mapping[str, TopicSetting]:
        """Return the settings of the dead-letter topic. Empty without permission to describe it."""
        found = await self._cluster.patiently(lambda: self._cluster.ask(describe_settings([topic])))
        return found.get(topic, {})

    def _refuse(self, changes: Mapping[str, str]) -> None:
        if changes:
            raise RecordRejected(
                f"dead-letter topic {self.name} would reject the record too",
                advice="set " + _listed(changes) + " on that topic",
            )


def obstacles(
    settings: Mapping[str, TopicSetting], letters: Sequence[Record], largest: int, now_ms: int
) -> dict[str, str]:
    """Return the topic settings that would reject the dead letters, each with a value that accepts them.
    `largest`: size of the largest batch in bytes. `now_ms`: approximate broker time, for timestamp limits."""
    found: dict[str, str] = {}
    if largest > _number(settings, "max.message.bytes"):
        found["max.message.bytes"] = str(_LARGEST_BATCH if largest <= _LARGEST_BATCH else largest)
    policy = settings.get("cleanup.policy")
    if policy is not None and "compact" in policy.value and any(letter.key is None for letter in letters):
        found["cleanup.policy"] = "delete"
    stamped = settings.get("message.timestamp.type")
    if stamped is None or stamped.value == "CreateTime":
        ahead = max(letter.timestamp - now_ms for letter in letters)
        behind = max(now_ms - letter.timestamp for letter in letters)
        for key, distance in ((_AFTER, ahead), (_BEFORE, behind), (_APART, max(ahead, behind))):
            if distance > _number(settings, key):
                found[key] = _NO_LIMIT
    return found


def _number(settings: Mapping[str, TopicSetting], key: str) -> int:
    """Return the value of a numeric limit of the topic, or the maximum if unknown."""
    known = settings.get(key)
    return int(known.value) if known is not None and known.value.isdecimal() else int(_NO_LIMIT)


def _with_advice(error: HeadraceError, topic: str, wanted: Mapping[str, str]) -> Refused:
    return Refused(error.message, advice=f"create {topic} with {_listed(wanted)}, or grant Create on it")


def _listed(settings: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in settings.items())
