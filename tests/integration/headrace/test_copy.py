"""Run `headrace copy` and `headrace verify` like an operator."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import psutil
import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import NewPartitions

from headrace.errors import EXIT_USAGE
from tests.copies import NOW, Clusters, change, records
from tests.engines import write
from tests.freezing import frozen
from tests.kafka_data import Record, admin_client, counts, make_topic, read_all
from tests.patience import PATIENCE_SECONDS, wait_until
from tests.servers import KafkaPair

pytestmark = [pytest.mark.servers, pytest.mark.long]


@pytest.fixture
def clusters(kafka_pair: KafkaPair, tmp_path: Path) -> Clusters:
    return Clusters(kafka_pair, tmp_path)


def by_partition(document: dict[str, Any]) -> dict[tuple[str, int], dict[str, Any]]:
    return {(one["topic"], one["partition"]): one for one in document["partitions"]}


def test_a_copy_tells_what_became_of_every_offset_and_is_verified(clusters: Clusters) -> None:
    one, two = f"{clusters.prefix}-one", f"{clusters.prefix}-two"
    make_topic(clusters.source, one, 3, retention_ms="-1")
    make_topic(clusters.source, two, 1, cleanup_policy="compact")
    write(clusters.source, one, records(300, 3))
    write(clusters.source, two, records(50, 1), compression_type="zstd")
    document = clusters.copy("--workers", "2")
    assert document["complete"]
    assert document["created_topics"] == [f"copy.{one}", f"copy.{two}"]
    assert (document["records"], document["failures"]) == (350, [])
    partitions = by_partition(document)
    assert {place: lane["offsets"]["mirrored"] for place, lane in partitions.items()} == {
        (one, 0): 100,
        (one, 1): 100,
        (one, 2): 100,
        (two, 0): 50,
    }
    for lane in partitions.values():
        assert sum(lane["offsets"].values()) == lane["next_offset"] - lane["start_offset"]
        assert (lane["end_offset"], lane["map_runs"], lane["gaps"]) == (lane["next_offset"], 1, [])
        assert sum(lane["batches"].values()) >= 1
        assert 0 < lane["seconds"] < document["seconds"]
    shares = [lane["cpu_seconds"] for lane in document["partitions"]]
    assert document["cpu_seconds"] == pytest.approx(sum(shares), abs=0.01)
    assert min(shares) > 0
    assert len(document["peak_rss_bytes"]) == 2
    code, verdict, _ = clusters.run("verify")
    assert (code, verdict["equal"]) == (0, True)
    write(clusters.destination, f"copy.{one}", [Record(1, b"stranger", b"", (), NOW)])
    code, verdict, _ = clusters.run("verify")
    assert (code, verdict["equal"], verdict["left_out"]) == (1, False, None)
    assert [(p["partition"], p["surplus"]) for p in verdict["partitions"] if not p["equal"]] == [(1, 1)]


@pytest.mark.deep
def test_a_state_goes_on_where_it_stopped_and_follows_its_topics(clusters: Clusters) -> None:
    topic = f"{clusters.prefix}-grows"
    make_topic(clusters.source, topic, 2, retention_ms="1000000000")
    write(clusters.source, topic, records(100, 2))
    state = f"state-{clusters.prefix}"
    code, _, told = clusters.run("copy", "--until-end", "--state", state, "--start", "checkpoint")
    assert code != 0
    assert "has no checkpoint" in told
    assert clusters.copy("--state", state)["records"] == 100
    admin = admin_client(clusters.source)
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(PATIENCE_SECONDS)
    change(clusters.destination, f"copy.{topic}", "retention.ms", "2000000000")
    later = [Record(n % 3, None, b"later %d" % n, (), NOW) for n in range(30)]
    write(clusters.source, topic, later, client_id="knows-the-new-partition")
    document = clusters.copy("--state", state)
    assert (document["records"], document["created_topics"], document["grown_topics"]) == (
        30,
        [],
        [f"copy.{topic}"],
    )
    (drift,) = document["drift"]
    assert re.match(rf"copy\.{topic}: retention\.ms .*\b2000000000\b.*\b1000000000\b", drift), drift
    assert {place[1]: lane["next_offset"] for place, lane in by_partition(document).items()} == {
        0: 60,
        1: 60,
        2: 10,
    }
    code, verdict, _ = clusters.run("verify", "--state", state)
    assert (code, sum(one["records"] for one in verdict["partitions"])) == (0, 130)


@pytest.mark.deep
def test_a_copy_can_begin_at_a_time(clusters: Clusters) -> None:
    topic = f"{clusters.prefix}-time"
    make_topic(clusters.source, topic, 1, retention_ms="-1")
    hour = 3_600_000
    write(
        clusters.source,
        topic,
        [Record(0, None, b"%d" % n, (), 1_700_000_000_000 + n * hour) for n in range(9)],
    )
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(1_700_000_000 + 5 * 3600))
    document = clusters.copy("--start", moment, "--bytes-per-second", "1000000")
    assert (document["records"], document["partitions"][0]["start_offset"]) == (4, 5)
    code, _, told = clusters.run("copy", "--start", "yesterday")
    assert code == EXIT_USAGE
    assert "'yesterday'" in told


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP], ids=["dies", "freezes"])
def test_a_worker_that_ends_or_stands_still_is_replaced_and_nothing_is_lost_or_repeated(
    clusters: Clusters, monkeypatch: pytest.MonkeyPatch, how: signal.Signals
) -> None:
    monkeypatch.setenv("HEADRACE_MIRROR__WORKER__SILENCE_LIMIT_SECONDS", "5")
    topic = f"{clusters.prefix}-dies"
    make_topic(clusters.source, topic, 3)
    some = [Record(n % 3, None, b"%9000d" % n, (), NOW) for n in range(300)]
    write(clusters.source, topic, some, batch_size=20_000)
    with ThreadPoolExecutor() as pool:
        running = pool.submit(clusters.copy, "--bytes-per-second", "500000")
        wait_until(lambda: has_copied(clusters.destination, f"copy.{topic}"), "some records are copied")
        (worker,) = [one for one in running_copy().children() if "headrace.copy.worker" in one.cmdline()]
        os.kill(worker.pid, how)
        document = running.result()
    assert (document["complete"], document["restarts"], document["failures"]) == (True, 1, [])
    code, verdict, _ = clusters.run("verify")
    assert (code, [one["surplus"] for one in verdict["partitions"]]) == (0, [0, 0, 0])


@pytest.mark.deep
def test_a_signal_to_the_whole_process_group_stops_a_copy_in_order(clusters: Clusters) -> None:
    topic, state = f"{clusters.prefix}-signal", f"state-{clusters.prefix}"
    make_topic(clusters.source, topic, 3)
    some = [Record(n % 3, None, b"%9000d" % n, (), NOW) for n in range(300)]
    write(clusters.source, topic, some, batch_size=20_000)
    options = ("--until-end", "--state", state, "--workers", "2", "--bytes-per-second", "400000")
    for number in (signal.SIGTERM, signal.SIGINT):
        before = copied_records(clusters.destination, f"copy.{topic}")
        with subprocess.Popen(
            clusters.command("copy", *options), stdout=subprocess.PIPE, text=True, start_new_session=True
        ) as running:
            wait_until(lambda: copied_records(clusters.destination, f"copy.{topic}") > before, "it copies")  # noqa: B023
            os.killpg(running.pid, number)
            document = json.loads(running.communicate(timeout=PATIENCE_SECONDS)[0])
        assert (running.returncode, document["complete"], document["failures"]) == (1, False, [])
        assert document["records"] == copied_records(clusters.destination, f"copy.{topic}") - before
        for lane in document["partitions"]:
            assert sum(lane["offsets"].values()) == lane["next_offset"]
    assert clusters.copy("--state", state)["complete"]
    code, verdict, _ = clusters.run("verify", "--state", state)
    assert (code, sum(one["records"] for one in verdict["partitions"])) == (0, 300)


@pytest.mark.deep
def test_a_full_disk_under_report_and_log_does_not_hide_what_was_copied(clusters: Clusters) -> None:
    topic = f"{clusters.prefix}-full"
    make_topic(clusters.source, topic, 1)
    write(clusters.source, topic, records(10, 1))
    code, document, told = clusters.run("copy", "--until-end", "--report", "/dev/full")
    assert (code, document["complete"], document["records"]) == (1, True, 10)
    assert "/dev/full" in told
    assert os.strerror(errno.ENOSPC) in told
    write(clusters.source, topic, records(10, 1))
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            clusters.command("copy", "--until-end"),
            stdout=subprocess.PIPE,
            stderr=full,
            text=True,
            check=False,
        )
    document = json.loads(done.stdout)
    assert (done.returncode, document["complete"], document["failures"]) == (0, True, [])


@pytest.mark.deep
def test_what_arrives_while_a_copy_is_verified_is_no_difference(clusters: Clusters) -> None:
    topic = f"{clusters.prefix}-busy"
    make_topic(clusters.source, topic, 2)
    write(clusters.source, topic, records(2_000, 2))
    stop = Event()

    def traffic() -> None:
        number = 0
        while not stop.wait(0.02):  # a pause, since the writer would starve the copy of CPU time
            write(clusters.source, topic, [Record(number % 2, b"k", b"%d" % number, (), NOW)] * 20)
            number += 1

    copying = subprocess.Popen(clusters.command("copy"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with copying, ThreadPoolExecutor() as pool:
        try:
            running = pool.submit(traffic)
            wait_until(
                lambda: has_copied(clusters.destination, f"copy.{topic}") > 2_000, "more records are copied"
            )
            for _ in range(3):
                code, verdict, told = clusters.run("verify")
                assert (code, verdict["equal"]) == (0, True), (verdict, told)
                assert all(one["source_range"][1] > 1_000 for one in verdict["partitions"])
        finally:
            stop.set()
            running.result()
            copying.terminate()
    here, there = clusters.source, clusters.destination
    behind = counts(here, [topic])[topic] - has_copied(there, f"copy.{topic}")
    write(here, topic, [Record(0, b"late", b"", (), NOW)] * 5)
    code, verdict, _ = clusters.run("verify")
    assert (code, sum(one["missing"] for one in verdict["partitions"])) == (1, behind + 5)


def running_copy() -> psutil.Process:
    """Return the copy started by a test of this process."""
    (found,) = [
        process
        for process in psutil.Process().children()
        if process.status() != psutil.STATUS_ZOMBIE and "copy" in process.cmdline()
    ]
    return found


def has_copied(address: str, topic: str) -> int:
    """Return the number of offsets of the topic including markers, or 0 while it is missing."""
    try:
        return counts(address, [topic])[topic]
    except KafkaException:
        return 0


def copied_records(address: str, topic: str) -> int:
    """Return the number of records of the topic, or 0 while it is missing."""
    return len(read_all(address, topic)) if has_copied(address, topic) else 0


@pytest.mark.deep
def test_a_copy_that_another_one_replaces_ends_and_says_so(clusters: Clusters) -> None:
    topic, state = f"{clusters.prefix}-twice", f"state-{clusters.prefix}"
    make_topic(clusters.source, topic, 1)
    write(clusters.source, topic, records(10, 1))
    with ThreadPoolExecutor() as pool:
        first = pool.submit(clusters.run, "copy", "--state", state)
        wait_until(lambda: has_copied(clusters.destination, f"copy.{topic}"), "the first copy has records")
        with frozen(running_copy().pid):
            write(clusters.source, topic, records(10, 1))  # for the second copy only
            assert clusters.copy("--state", state)["complete"]
        write(clusters.source, topic, records(10, 1))
        code, document, _ = first.result()
    assert code == 1
    assert "--state" in document["failures"][0]
    clusters.copy("--state", state)
    code, verdict, _ = clusters.run("verify", "--state", state)
    assert (code, verdict["partitions"][0]["records"]) == (0, 30)


@pytest.mark.deep
@pytest.mark.parametrize("guarantee", ["effectively-once", "exactly-once"])
def test_of_copies_of_one_state_at_once_each_ends_and_nothing_is_repeated(
    clusters: Clusters, guarantee: str
) -> None:
    topic, state = f"{clusters.prefix}-race", f"state-{clusters.prefix}"
    for address, name in ((clusters.source, topic), (clusters.destination, f"copy.{topic}")):
        make_topic(address, name, 4)
    write(clusters.source, topic, records(20_000, 4), batch_size=2_000)
    options = ("--until-end", "--state", state, "--guarantee", guarantee)
    with ThreadPoolExecutor() as pool:
        racing = [pool.submit(clusters.run, "copy", *options) for _ in range(3)]
        outcomes = [one.result() for one in racing]
    for code, document, told in outcomes:
        assert code == (0 if document["complete"] and not document["failures"] else 1), told
        if code:
            assert "--state" in " ".join(document["failures"])
    clusters.copy("--state", state, "--guarantee", guarantee)
    code, verdict, _ = clusters.run("verify")
    found = [(one["records"], one["surplus"]) for one in verdict["partitions"]]
    assert (code, found) == (0, [(5_000, 0)] * 4)
