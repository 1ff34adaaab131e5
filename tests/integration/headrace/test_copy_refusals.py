"""Copies up to the current ends of topics with records that the destination rejects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from mirror.model.topics import DEAD_LETTER_SUFFIX
from tests.copies import NOW, Clusters
from tests.engines import look, write
from tests.kafka_data import Record, make_topic
from tests.servers import KafkaPair

pytestmark = [pytest.mark.servers, pytest.mark.deep]

COUNT: Final = 240
OPEN: Final = str(2**63 - 1)
REFUSED: Final = {"time": (3, 11, 100, 239), "keys": (0, 5, 6, 200), "large": (17, 130)}
"""Offsets of invalid records by topic, in one batch with valid ones; some are its first or last."""
LIMITS: Final[dict[str, tuple[dict[str, Any], dict[str, Any]]]] = {
    "time": ({"message_timestamp_after_max_ms": OPEN}, {"message_timestamp_after_max_ms": "60000"}),
    "keys": ({}, {"cleanup_policy": "compact"}),
    "large": ({"max_message_bytes": "3000000"}, {}),
}
"""Settings of each topic at the source and at the destination."""


@pytest.fixture
def clusters(kafka_pair: KafkaPair, tmp_path: Path) -> Clusters:
    return Clusters(kafka_pair, tmp_path)


def contents(kind: str) -> list[Record]:
    """Return the records of a topic, including the invalid ones."""
    found = [Record(0, b"k%d" % n, b"value %d" % n, (), NOW + n) for n in range(COUNT)]
    fault: dict[str, dict[str, Any]] = {
        "time": {"timestamp_ms": NOW + 86_400_000},
        "keys": {"key": None},
        "large": {"value": b"x" * 1_500_000},
    }
    for number in REFUSED[kind]:
        found[number] = replace(found[number], **fault[kind])
    return found


def fill(clusters: Clusters, destinations: Iterable[str]) -> None:
    for kind, (here, there) in LIMITS.items():
        topic = f"{clusters.prefix}-{kind}"
        make_topic(clusters.source, topic, **here)
        for name in destinations:
            make_topic(clusters.destination, f"{name}.{topic}", **there)
        write(clusters.source, topic, contents(kind), message_max_bytes=3_000_000, linger_ms=100)


def check(clusters: Clusters, name: str, document: Mapping[str, Any], offset_class: str) -> None:
    """Check that exactly the invalid records are skipped, in order, and every offset is accounted for."""
    lanes = {lane["topic"]: lane for lane in document["partitions"]}
    for kind, faults in REFUSED.items():
        topic = f"{clusters.prefix}-{kind}"
        there = [(one.key, one.value) for one in look(clusters.destination, f"{name}.{topic}")]
        good = [(one.key, one.value) for n, one in enumerate(contents(kind)) if n not in faults]
        assert there == good, f"{topic} differs"
        offsets = {what: count for what, count in lanes[topic]["offsets"].items() if count}
        assert offsets == {"mirrored": COUNT - len(faults), offset_class: len(faults)}
        assert (lanes[topic]["next_offset"], lanes[topic]["reason"]) == (COUNT, "")


def check_verdict(clusters: Clusters, name: str, state: str) -> None:
    """Check that with the state a copy is equal except for the reported invalid records."""
    code, verdict, _ = clusters.run("verify", "--rename", f"{name}.*", "--state", state)
    found = {one["topic"].removeprefix(f"{clusters.prefix}-"): one for one in verdict["partitions"]}
    assert {kind: one["left_out"] for kind, one in found.items()} == {
        kind: len(faults) for kind, faults in REFUSED.items()
    }
    assert (code, verdict["equal"]) == (0, True), verdict
    assert verdict["left_out"] == sum(map(len, REFUSED.values()))
    assert [found[kind]["records"] for kind in REFUSED] == [
        COUNT - len(faults) for faults in REFUSED.values()
    ]


def test_exactly_the_refused_records_are_left_out(clusters: Clusters) -> None:
    fill(clusters, ["skip", "letters"])
    state = f"state-{clusters.prefix}"
    document = clusters.copy("--rename", "skip.*", "--on-rejection", "skip", "--state", state)
    check(clusters, "skip", document, "filtered")
    check_verdict(clusters, "skip", state)
    document = clusters.copy(
        "--rename", "letters.*", "--on-rejection", "dead-letter", "--guarantee", "exactly-once"
    )
    check(clusters, "letters", document, "dead_lettered")
    for kind, faults in REFUSED.items():
        name = f"letters.{clusters.prefix}-{kind}{DEAD_LETTER_SUFFIX}"
        letters = look(clusters.destination, name)
        wanted = [contents(kind)[number] for number in faults]
        assert [(one.timestamp, one.key, one.value) for one in letters] == [
            (one.timestamp_ms, one.key, one.value) for one in wanted
        ]
        assert [dict(one.headers)["headrace-offset"] for one in letters] == [b"%d" % n for n in faults]
