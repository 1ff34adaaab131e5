"""Consumer groups that move to the copy and back, based on the stored offset map."""

from __future__ import annotations

import json
import re
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer
from typer.testing import CliRunner, Result

from headrace.__main__ import app
from mirror.adapters.system_clock import SystemClock
from mirror.client.access import ClusterAccess, endpoints
from mirror.errors import Refused
from mirror.jobs.translate_job import (
    AHEAD,
    NOT_MIRRORED,
    UNCHANGED,
    TranslateJob,
    apply_translation,
    plan_translation,
)
from mirror.replication.context import EngineContext, EngineIdentity
from mirror.replication.options import CopyingOptions
from tests.engines import DESTINATION, SOURCE, EngineUnderTest, look, write
from tests.kafka_data import Record, commit_positions, group_positions, grow_topic, make_topic

pytestmark = pytest.mark.servers

NOW = int(time.time() * 1000)


def group_consumer(address: str, group: str) -> Consumer:
    return Consumer({"bootstrap.servers": address, "group.id": group, "enable.auto.commit": False})


@pytest.fixture
def copied(engine: EngineUnderTest) -> tuple[EngineUnderTest, str]:
    """Copy two partitions of 60 records; the second copy starts after 7 foreign records."""
    topic = f"tr-{time.monotonic_ns()}"
    make_topic(engine.source, topic, 2)
    make_topic(engine.destination, f"copy.{topic}", 2)
    write(engine.destination, f"copy.{topic}", [Record(1, None, b"stranger", (), NOW)] * 7)
    write(engine.source, topic, [Record(n % 2, None, b"%d" % (n // 2), (), NOW) for n in range(120)])
    engine.start(topic, 2, f"copy.{topic}", group=f"g-{topic}")
    engine.run_to(topic, [60, 60], destination=f"copy.{topic}")
    engine.stop()
    return engine, topic


class Commands:
    """Plans and applies translations between the engine's clusters."""

    def __init__(self, engine: EngineUnderTest) -> None:
        self._access = {
            SOURCE: ClusterAccess(endpoints(engine.source)),
            DESTINATION: ClusterAccess(endpoints(engine.destination)),
        }

    def plan(self, job: TranslateJob) -> list[dict[str, Any]]:
        with closing(self._bench()) as bench:
            return [move.to_json() for move in bench.run(plan_translation(bench, job))]

    def apply(self, job: TranslateJob) -> int:
        with closing(self._bench()) as bench:
            return bench.run(apply_translation(bench, job, bench.run(plan_translation(bench, job))))

    def _bench(self) -> EngineContext:
        return EngineContext(
            self._access.__getitem__, CopyingOptions(), EngineIdentity("test"), SystemClock()
        )


def job(topic: str, group: str, **fields: Any) -> TranslateJob:
    return TranslateJob(f"g-{topic}", SOURCE, DESTINATION, group, **fields)


def test_a_group_goes_on_at_the_copy_with_the_very_next_record(copied: tuple[EngineUnderTest, str]) -> None:
    engine, topic = copied
    group = f"consumers-{topic}"
    commit_positions(engine.source, group, {(topic, 0): 17, (topic, 1): 41})
    assert Commands(engine).apply(job(topic, group)) == 2
    positions = group_positions(engine.destination, group, f"copy.{topic}", 2)
    assert positions == [17, 48]
    for number, position in enumerate(positions):
        here = look(engine.source, topic, number)
        (there,) = [
            one for one in look(engine.destination, f"copy.{topic}", number) if one.offset == position
        ]
        assert there.content == here[(17, 41)[number]].content


@pytest.mark.deep
def test_an_empty_partition_begins_where_its_first_record_lies(engine: EngineUnderTest) -> None:
    topic, group = f"tr-{time.monotonic_ns()}", f"consumers-{time.monotonic_ns()}"
    for cluster, name in ((engine.source, topic), (engine.destination, f"copy.{topic}")):
        make_topic(cluster, name, 2)
    write(engine.destination, f"copy.{topic}", [Record(1, None, b"stranger", (), NOW)] * 7)
    write(engine.source, topic, [Record(0, None, b"%d" % number, (), NOW) for number in range(60)])
    engine.start(topic, 2, f"copy.{topic}", group=f"g-{topic}")
    engine.run_to(topic, [60, 0], destination=f"copy.{topic}")
    commit_positions(engine.source, group, {(topic, 0): 60, (topic, 1): 0})
    commands, ours = Commands(engine), job(topic, group)
    engine.run_until(lambda: not any(move["behind"] for move in commands.plan(ours)), "both are stored")
    assert commands.apply(ours) == 2
    assert group_positions(engine.destination, group, f"copy.{topic}", 2) == [60, 7]
    write(engine.source, topic, [Record(1, None, b"first", (), NOW)])
    engine.run_to(topic, [60, 1], destination=f"copy.{topic}")
    engine.stop()
    first = next(one for one in look(engine.destination, f"copy.{topic}", 1) if one.offset >= 7)
    assert first.content == look(engine.source, topic, 1)[0].content


@pytest.mark.deep
def test_there_and_back_is_where_it_was(copied: tuple[EngineUnderTest, str]) -> None:
    engine, topic = copied
    group = f"consumers-{topic}"
    commands = Commands(engine)
    commit_positions(engine.source, group, {(topic, 0): 60, (topic, 1): 5})
    commands.apply(job(topic, group))
    commit_positions(engine.destination, group, {(f"copy.{topic}", 1): 7 + 33})
    moves = commands.plan(job(topic, group, back=True))
    assert [(move["topic"], move["becomes"], move["skipped"]) for move in moves] == [
        (f"copy.{topic}", 60, UNCHANGED),
        (f"copy.{topic}", 33, ""),
    ]
    commands.apply(job(topic, group, back=True))
    assert group_positions(engine.source, group, topic, 2) == [60, 33]


@pytest.mark.deep
def test_positions_that_are_ahead_there_stay_unless_told_otherwise(
    copied: tuple[EngineUnderTest, str],
) -> None:
    engine, topic = copied
    group = f"consumers-{topic}"
    commands = Commands(engine)
    commit_positions(engine.source, group, {(topic, 0): 10})
    commit_positions(engine.destination, group, {(f"copy.{topic}", 0): 30})
    assert [move["skipped"] for move in commands.plan(job(topic, group))] == [AHEAD]
    assert commands.apply(job(topic, group)) == 0
    assert commands.apply(job(topic, group, rewinds=True)) == 1
    assert group_positions(engine.destination, group, f"copy.{topic}", 1) == [10]


@pytest.mark.deep
def test_a_group_with_members_there_keeps_its_positions(copied: tuple[EngineUnderTest, str]) -> None:
    engine, topic = copied
    group = f"consumers-{topic}"
    make_topic(engine.source, f"{topic}-alone")
    commit_positions(engine.source, group, {(topic, 0): 10, (f"{topic}-alone", 0): 0})
    moves = Commands(engine).plan(job(topic, group))
    assert {move["skipped"] for move in moves} == {"", NOT_MIRRORED}
    consumer = group_consumer(engine.destination, group)
    consumer.subscribe([f"copy.{topic}"])
    while not consumer.assignment():
        consumer.poll(0.2)
    with pytest.raises(Refused, match="members"):
        Commands(engine).apply(job(topic, group))
    consumer.close()


@pytest.mark.deep
def test_the_commands_show_first_and_do_then(copied: tuple[EngineUnderTest, str], tmp_path: Path) -> None:
    engine, topic = copied
    group = f"consumers-{topic}"
    config = tmp_path / "headrace.toml"
    config.write_text(
        f'[clusters.here]\nbootstrap_servers = "{engine.source}"\n'
        f'[clusters.there]\nbootstrap_servers = "{engine.destination}"\n'
    )
    commit_positions(engine.source, group, {(topic, 0): 17})
    both = ["--destination", "there", "--state", f"g-{topic}", "--config", str(config), "--json"]
    asked = ["translate", "--source", "here", "--group", group, *both]
    shown = json.loads(CliRunner().invoke(app, [*asked, "--dry-run"]).stdout)
    assert shown["committed"] == 0
    assert [(one["offset"], one["becomes"], one["precision"]) for one in shown["positions"]] == [
        (17, 17, "exact")
    ]
    assert group_positions(engine.destination, group, f"copy.{topic}", 1) == [-1001]
    assert json.loads(CliRunner().invoke(app, asked).stdout)["committed"] == 1
    assert group_positions(engine.destination, group, f"copy.{topic}", 1) == [17]
    told = json.loads(CliRunner().invoke(app, ["progress", "--map", *both]).stdout)
    assert [(one["partition"], one["offsets"]["mirrored"], one["offset_map"]) for one in told] == [
        (0, 60, [[0, 0, 60]]),
        (1, 60, [[0, 7, 60]]),
    ]
    assert {one["destination_topic"] for one in told} == {f"copy.{topic}"}


@pytest.mark.deep
def test_the_command_fails_where_a_group_would_lose_its_place(
    copied: tuple[EngineUnderTest, str], tmp_path: Path
) -> None:
    engine, topic = copied
    write(engine.source, topic, [Record(0, None, b"later", (), NOW)])
    make_topic(engine.source, f"{topic}-alone")

    def translated(positions: dict[tuple[str, int], int], destination: str = engine.destination) -> Result:
        group = f"consumers-{time.monotonic_ns()}"
        commit_positions(engine.source, group, positions)
        sides = ["--source", engine.source, "--destination", destination, "--timeout", "1s"]
        return CliRunner().invoke(app, ["translate", *sides, "--state", f"g-{topic}", "--group", group])

    behind = translated({(topic, 0): 61, (topic, 1): 5})
    assert (behind.exit_code, "2 of 2 positions committed" in behind.stdout) == (0, True)
    assert re.search(rf"\bcheckpoint\b.*\b{topic}-0\b", " ".join(behind.stderr.split()))
    grow_topic(engine.source, topic, 3)
    left = translated({(topic, 0): 10, (topic, 2): 0})
    assert (left.exit_code, "1 of 2 positions committed" in left.stdout) == (1, True)
    assert f"{topic}-2: not mirrored" in " ".join(left.stderr.split())
    nothing = translated({(f"{topic}-alone", 0): 0})
    assert (nothing.exit_code, "is mirrored under" in nothing.stderr) == (1, True)
