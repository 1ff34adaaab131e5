"""The store that the settings choose, and what commands show of it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest

from headrace.coordination.client import (
    PART,
    connected,
    coordination_client,
    service_name,
    store_cluster,
    store_folder,
    viewed,
)
from headrace.coordination.transfer import exported, import_state
from headrace.doctor.diagnosis import Grade
from headrace.doctor.store import examined_shared_store, examined_store
from headrace.dr.state_store import exported_with_pairs, import_pairs, store_of
from headrace.settings import HeadraceSettings, load_settings
from mirror.adapters.embedded_store.session import EmbeddedSession
from mirror.adapters.embedded_store.store import FILE_NAME
from mirror.adapters.kafka.loop_thread import LoopThread
from mirror.adapters.kafka_store.session import KafkaSession
from mirror.adapters.kafka_store.survey import shared_store_facts
from mirror.adapters.zookeeper import ZooKeeper
from mirror.coordination.store.codec import encode_command
from mirror.coordination.store.commands import Change, EphemeralNode, OpenSession
from mirror.coordination.store.parts import split_command
from mirror.coordination.stores.root import ensure_root
from mirror.errors import ConfigError, DamagedStore, StoreInUse, Unreachable
from mirror.instance.health import Health
from tests.fakes.broker.cluster import FakeCluster, running
from tests.patience import PATIENCE_SECONDS
from tests.unit.headrace.conftest import Headrace, Write


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The state directory of the settings."""
    found = tmp_path / "state"
    monkeypatch.setenv("HEADRACE_MIRROR__STATE_DIRECTORY", str(found))
    return found


def test_without_zookeeper_an_instance_has_its_own_store_and_health_says_so(folder: Path) -> None:
    health = Health()
    client = coordination_client(load_settings(), "one", health, lambda _: None, lambda: None)
    assert isinstance(client, EmbeddedSession)
    assert str(folder) in health.conditions()[PART].sentence
    client.start()
    client.create("/a", b"1")
    client.stop()
    with connected(load_settings(), "a command") as again:
        assert again.read("/a").data == b"1"


def test_with_zookeeper_nothing_is_written_here(write: Write, folder: Path) -> None:
    settings = load_settings(write("[zookeeper]\n"))
    client = coordination_client(settings, "one", Health(), lambda _: None, lambda: None)
    assert isinstance(client, ZooKeeper)
    assert not folder.exists()


def test_a_command_is_told_who_holds_the_store() -> None:
    settings = load_settings()
    with connected(settings, "one"), pytest.raises(StoreInUse, match="one"), connected(settings, "a command"):
        pass


def test_a_command_that_only_reads_sees_a_copy_of_a_store_in_use(folder: Path) -> None:
    settings = load_settings()
    with viewed(settings, "a command") as nodes:
        assert (nodes.children(""), folder.exists()) == ((), False)
    with connected(settings, "one") as owner:
        owner.create("/a", b"1")
        with viewed(settings, "a command") as nodes:
            owner.write("/a", b"2", 0)
            assert nodes.read("/a").data == b"1"
            nodes.sync()
            nodes.write("/a", b"3", 0)
            nodes.create("/b", b"", ephemeral=True)
        assert (owner.read("/a").data, owner.children("")) == (b"2", ("a",))
    (folder / FILE_NAME).write_bytes(b"hello")
    with pytest.raises(DamagedStore), viewed(settings, "a command"):
        pass
    (folder / FILE_NAME).unlink()
    (folder / FILE_NAME).mkdir()
    with pytest.raises(ConfigError), viewed(settings, "a command"):
        pass


@pytest.mark.parametrize("base", ["", "relative"])
def test_the_folder_of_a_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, base: str) -> None:
    monkeypatch.delenv("HEADRACE_MIRROR__STATE_DIRECTORY")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", base)
    assert store_folder(load_settings()) == tmp_path / ".local/state/headrace"
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    assert store_folder(load_settings()) == tmp_path / "xdg/headrace"


def test_the_doctor_sees_a_store_before_during_and_after_its_use(folder: Path) -> None:
    settings = load_settings()
    (before,) = examined_store(settings)
    assert (before.grade, folder.exists()) == (Grade.OK, False)
    with connected(settings, "one"):
        (during, *_) = examined_store(settings)
        assert f"one (process {os.getpid()})" in during.sentence
    (after, *_) = examined_store(settings)
    assert (after.grade, "one" in after.sentence.split()) == (Grade.OK, False)
    (folder / FILE_NAME).write_bytes(b"hello")
    with pytest.raises(DamagedStore):
        list(examined_store(settings))


def test_the_doctor_reports_damage_as_a_problem(headrace: Headrace, folder: Path) -> None:
    folder.mkdir()
    (folder / FILE_NAME).write_bytes(b"hello")
    shown = headrace("doctor", "--json", "--at", "127.0.0.1:5", "--patience", "1s")
    grades = {one["subject"]: one["grade"] for one in json.loads(shown.out)}
    assert grades["coordination store"] == "problem"
    assert "ZooKeeper" not in grades


def test_the_check_of_the_settings_names_the_store(headrace: Headrace, folder: Path) -> None:
    assert str(folder) in headrace("config", "check").out.replace("\n", "")


@pytest.fixture(scope="module")
def broker() -> Iterator[FakeCluster]:
    """A fake broker on a port of this machine."""
    with running(FakeCluster("store")) as cluster:
        yield cluster


@pytest.fixture
def on_kafka(write: Write, broker: FakeCluster) -> HeadraceSettings:
    """Settings of a service with its state on the fake broker."""
    text = f'''
        [clusters.c]
        bootstrap_servers = "{broker.address}"
        [coordination]
        cluster = "c"
        topic = "state-{uuid4().hex[:8]}"
        session_timeout_seconds = 2
    '''
    return load_settings(write(text))


def test_with_a_cluster_the_state_is_in_its_topic(on_kafka: HeadraceSettings, folder: Path) -> None:
    health = Health()
    client = coordination_client(on_kafka, "one", health, lambda _: None, lambda: None)
    assert isinstance(client, KafkaSession)
    assert on_kafka.coordination.topic in health.conditions()[PART].sentence
    assert service_name(on_kafka) == on_kafka.coordination.topic
    assert not folder.exists()
    client.start()
    client.create("/a", b"1")
    assert client.is_answering()
    client.stop()
    client.stop()
    with connected(on_kafka, "a command") as again:
        assert again.read("/a").data == b"1"


def test_a_command_waits_until_a_killed_instance_is_gone(
    on_kafka: HeadraceSettings, broker: FakeCluster
) -> None:
    with connected(on_kafka, "one") as first:
        first.create("/live/one", ephemeral=True)
        with connected(on_kafka, "two") as second:
            second.sync()
            assert second.children("/live") == ("one",)
    with broker.lock:
        record = encode_command(OpenSession("dead", 2_000))
        node = encode_command(Change("dead", 1, (EphemeralNode("/live/dead", b""),)))
        for number, command in enumerate((record, node), 1):
            parts = split_command(b"d" * 16, number, command, 100_000)
            broker.write(on_kafka.coordination.topic, [(0, None, part, []) for part in parts])
    with connected(on_kafka, "three") as third:
        assert third.children("/live") == ()


def test_state_moves_from_kafka_to_a_file_and_back(on_kafka: HeadraceSettings) -> None:
    with connected(on_kafka, "a command") as nodes:
        ensure_root(nodes)
        nodes.create_all([("/groups/a", b"1"), ("/groups/b", bytes(range(256)))])
    with store_of(on_kafka, "a command", reads_only=False) as nodes:
        nodes.create("/dr/pair", b"a pair")
    with connected(on_kafka, "a command") as nodes:
        state = exported_with_pairs(on_kafka, exported(nodes, "kafka", 1))
    alone = load_settings()
    with connected(alone, "a command") as nodes:
        import_state(nodes, state, partial(import_pairs, alone))
        back = exported_with_pairs(alone, exported(nodes, "a file", 2))
    other = on_kafka.model_copy(
        update={"coordination": on_kafka.coordination.model_copy(update={"topic": "other"})}
    )
    with connected(other, "a command") as nodes:
        import_state(nodes, back, partial(import_pairs, other))
        assert nodes.read("/groups/b").data == bytes(range(256))
        assert nodes.read("/dr/pair").data == b"a pair"


def test_the_doctor_looks_at_the_topics(on_kafka: HeadraceSettings, broker: FakeCluster) -> None:
    loop, cluster = LoopThread("doctor"), store_cluster(on_kafka)

    def look() -> list[Grade]:
        facts = shared_store_facts(loop, cluster, on_kafka.coordination, PATIENCE_SECONDS)
        return [one.grade for one in examined_shared_store(on_kafka, facts)]

    assert look() == [Grade.OK]
    assert on_kafka.coordination.topic not in broker.topics
    with connected(on_kafka, "one"):
        assert look() == [Grade.OK, Grade.NOTE]
    with broker.lock:
        broker.topics[on_kafka.coordination.topic].own["cleanup.policy"] = "compact"
    with pytest.raises(ConfigError, match="cleanup"):
        look()
    with pytest.raises(ConfigError, match="cleanup"), connected(on_kafka, "one"):
        pass


def test_a_cluster_that_does_not_respond_is_named(write: Write) -> None:
    text = '[coordination]\ncluster = "127.0.0.1:5"\nconnect_timeout_seconds = 0.2\n'
    with (
        pytest.raises(Unreachable, match=r"127\.0\.0\.1:5"),
        connected(load_settings(write(text)), "a command"),
    ):
        pass


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ('[coordination]\ncluster = "source"\n[zookeeper]\n', "zookeeper"),
        ('[coordination]\ncluster = "nowhere"\n', "coordination.cluster"),
        ('[coordination]\ntopic = "a"\n', "coordination.topic"),
        ('[coordination]\ncluster = "source"\ntopic = "a b"\n', "topic"),
        (f'[coordination]\ncluster = "source"\ntopic = "{"x" * 245}"\n', "topic"),
        ('[coordination]\ncluster = "source"\nreplication_factor = 0\n', "replication_factor"),
        ('[coordination]\ncluster = "source"\nsession_timeout_seconds = 0.5\n', "session_timeout_seconds"),
    ],
)
def test_settings_that_choose_no_single_store_are_refused(write: Write, text: str, key: str) -> None:
    with pytest.raises(ConfigError, match=key):
        load_settings(write(text))
