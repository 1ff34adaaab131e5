"""Run `headrace copy` from a cluster to files and back, like an operator."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.copies import NOW, Clusters
from tests.engines import look, write
from tests.kafka_data import Record, make_topic, read_all
from tests.patience import PATIENCE_SECONDS, wait_until
from tests.servers import KafkaPair

pytestmark = [pytest.mark.servers, pytest.mark.deep]


@pytest.fixture
def clusters(kafka_pair: KafkaPair, tmp_path: Path) -> Clusters:
    return Clusters(kafka_pair, tmp_path)


@pytest.fixture
def landing(tmp_path: Path) -> Path:
    return tmp_path / "landing"


def records(first: int, count: int, partitions: int = 1) -> list[Record]:
    headers = (("h", b"1"), ("h", None))
    return [
        Record(n % partitions, None if n % 7 == 0 else b"k%d" % n, b"v%d" % n, headers, NOW + n)
        for n in range(first, first + count)
    ]


@contextmanager
def running(command: list[str]) -> Iterator[subprocess.Popen[str]]:
    """Run a copy within the context, and kill it at the end."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_topics_land_in_files_and_come_back(clusters: Clusters, landing: Path) -> None:
    topic = f"{clusters.prefix}-both-ways"
    make_topic(clusters.source, topic, 3, retention_ms="-1")
    write(clusters.source, topic, records(0, 300, 2), compression_type="lz4")
    landed = clusters.copy("--destination", f"file:{landing}", "--rename", "*")
    assert (landed["complete"], landed["records"]) == (True, 300)
    assert [(one["partition"], one["next_offset"]) for one in landed["partitions"]] == [
        (0, 150),
        (1, 150),
        (2, 0),
    ]
    state = f"state-{clusters.prefix}"
    for written in (300, 0):
        back = clusters.copy("--source", f"file:{landing}", "--rename", "back.*", "--state", state)
        assert (back["complete"], back["records"]) == (True, written)
    assert read_all(clusters.destination, f"back.{topic}") == read_all(clusters.source, topic)


def test_a_landing_that_is_killed_continues_and_has_one_owner(clusters: Clusters, landing: Path) -> None:
    topic = f"{clusters.prefix}-killed"
    make_topic(clusters.source, topic, 1, retention_ms="-1")
    write(clusters.source, topic, records(0, 100))
    place = f"file:{landing}?file_seconds=1"
    with running(clusters.command("copy", "--destination", place, "--rename", "*")):
        wait_until(lambda: list(landing.glob("*/*/*.avro")), "a file has landed")
        code, document, _ = clusters.run("copy", "--until-end", "--destination", place, "--rename", "*")
        assert code == 1
        assert re.search(rf"\bprocess\b.*{re.escape(str(landing))}", document["failures"][0])
        write(clusters.source, topic, records(100, 100))
    assert clusters.copy("--destination", place, "--rename", "*")["complete"]
    clusters.copy("--source", f"file:{landing}", "--rename", "again.*")
    values = [one.value for one in look(clusters.destination, f"again.{topic}")]
    assert values == [b"v%d" % n for n in range(200)]


def test_a_stopped_landing_keeps_what_it_has_read(clusters: Clusters, landing: Path) -> None:
    topic = f"{clusters.prefix}-stopped"
    make_topic(clusters.source, topic, 1, retention_ms="-1")
    write(clusters.source, topic, records(0, 10))
    with running(clusters.command("copy", "--destination", f"file:{landing}", "--rename", "*")) as process:
        wait_until(lambda: list(landing.glob("*/*/.*.part")), "records are being written")
        process.terminate()
        _, told = process.communicate(timeout=PATIENCE_SECONDS)
        assert process.returncode == 0, told
    assert len(list(landing.glob("*/*/*.avro"))) == 1


def test_what_needs_lanes_or_transactions_is_refused(clusters: Clusters, landing: Path) -> None:
    refused = {
        ("--guarantee", "exactly-once"): "at-least-once or effectively-once",
        ("--state", "s"): "--state",
        ("--path", "passthrough"): "--path passthrough",
    }
    for options, sentence in refused.items():
        code, _, told = clusters.run("copy", "--destination", f"file:{landing}", *options)
        assert code != 0
        assert sentence in " ".join(told.split())
    assert not landing.exists()
