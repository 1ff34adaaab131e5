"""Test which settings of a dead-letter topic reject letters."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

import pytest

from mirror.protocol.batches.records import Record
from mirror.protocol.control.topics import TopicSetting
from mirror.replication.handlers.dead_letters import SETTINGS, obstacles

NOW: Final = 1_700_000_000_000
DEFAULTS: Final = {
    "cleanup.policy": "delete",
    "max.message.bytes": "1048588",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": str(2**63 - 1),
    "message.timestamp.after.max.ms": "3600000",
}


class Case(NamedTuple):
    """A letter, the topic settings that differ from a broker's defaults, and the settings that reject it."""

    wanted: set[str]
    changed: Mapping[str, str] = MappingProxyType({})
    age_ms: int = 0
    key: bytes | None = b"k"
    largest: int = 100

    def found(self) -> dict[str, str]:
        described = {
            name: TopicSetting(value, own=False) for name, value in {**DEFAULTS, **self.changed}.items()
        }
        return obstacles(described, [Record(0, NOW - self.age_ms, self.key, b"")], self.largest, NOW)


AFTER, BEFORE, APART = (f"message.timestamp.{what}.max.ms" for what in ("after", "before", "difference"))


@pytest.mark.parametrize(
    "case",
    [
        Case(set()),
        Case({"max.message.bytes"}, largest=1_048_589),
        Case({"max.message.bytes"}, largest=200_000_000),
        Case({AFTER}, age_ms=-3_600_001),
        Case(set(), {"message.timestamp.type": "LogAppendTime"}, age_ms=-3_600_001),
        Case({BEFORE}, {BEFORE: "10"}, age_ms=11),
        Case({APART}, {APART: "10"}, age_ms=11),
        Case(set(), key=None),
        Case({"cleanup.policy"}, {"cleanup.policy": "compact,delete"}, key=None),
    ],
)
def test_every_setting_in_the_way_is_named_with_a_value_that_is_not(case: Case) -> None:
    changes = case.found()
    assert set(changes) == case.wanted
    assert case._replace(changed={**case.changed, **changes}).found() == {}


def test_a_topic_that_we_create_takes_everything() -> None:
    for age in (-(10**12), 10**12):
        assert Case(set(), SETTINGS, age, None, 100_000_000).found() == {}
