"""Reports while a cluster is frozen, dead, slow or inaccessible: nothing is healthy, and no lag is 0."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from headrace.console.client import RestClient
from mirror.adapters.system_clock import SystemClock
from mirror.model.datastreams.lanes import QuotaOwner
from mirror.model.identifiers import DatastreamName
from mirror.model.latency import LATENCY_BUCKETS
from mirror.model.topics import TopicSelection
from monitor.adapters.lane_answers import evidence_of
from monitor.adapters.rest_service import RestService
from monitor.causes.diagnosis import Cause
from monitor.causes.judge import diagnose
from monitor.cycle import MonitorCycle
from monitor.incidents import IncidentPolicy
from monitor.latency import LatencyObservation, ObjectiveStatus, Observations, Source
from monitor.objectives.late_times import LateTopics
from stack.kafka import KafkaCluster
from stack.ports import LOOPBACK, free_ports
from stack.zookeeper import ZooKeeperServer
from tests.acls import PERMISSIVE, Forbidden, add_rules
from tests.delaying import SlowPort
from tests.e2e.conftest import NewInstance, on_zookeeper
from tests.freezing import frozen
from tests.kafka_data import admin_client, read_all
from tests.mirrored import by_partition
from tests.patience import wait_until
from tests.scene import (
    OBJECTIVE_MS,
    PARTITIONS,
    Scene,
    Shown,
    diagnosed,
    is_0_somewhere,
    is_held_back,
    lanes_are,
    stands_still,
)
from tests.servers import KafkaPair, NewKafka
from tests.situations import SERVERS, SLOW, Snapshot
from tests.throttling import READING, WRITING, throttled
from tests.traffic import traffic

pytestmark = [pytest.mark.servers, pytest.mark.long, pytest.mark.deep]


SLOW_SECONDS: Final = 3.0
"""Delay in each direction: a response takes longer than the latency objective."""
THROTTLED: Final = {
    "a quota of the source's brokers throttles the datastream": READING,
    "a quota of the destination's brokers throttles the datastream": WRITING,
}
QUOTA: Final = 20_000
"""Bytes per second that may be read or written under the quota."""
DETOUR: Final = "SLOW"
"""Listener that is reached through a slow port."""


@pytest.fixture
def disks(tmp_path: Path) -> tuple[Path, Path]:
    """Return two log directories of the destination broker."""
    return tmp_path / "disk-1", tmp_path / "disk-2"


@pytest.fixture
def detours() -> list[int]:
    """Return a port for each cluster."""
    return free_ports(2)


@pytest.fixture
def kafka_pair(
    new_kafka: NewKafka, tmp_path: Path, disks: tuple[Path, Path], detours: list[int]
) -> KafkaPair:
    """Return clusters that this test may kill or slow down, and whose ACLs it may change."""
    two_disks = {
        "log.dirs": ",".join(map(str, disks)),
        "metadata.log.dir": tmp_path / "disk-of-metadata",
        "replica.high.watermark.checkpoint.interval.ms": 500,  # a disk is written to at least this often
    }

    def start(name: str, port: int, properties: Mapping[str, object]) -> KafkaCluster:
        return new_kafka(name, listeners=[DETOUR], detours={DETOUR: port}, properties=properties)

    with ThreadPoolExecutor() as pool:
        source = pool.submit(start, "source", detours[0], PERMISSIVE)
        destination = pool.submit(start, "destination", detours[1], {**PERMISSIVE, **two_disks})
        return KafkaPair(source.result(), destination.result())


@contextmanager
def killed(cluster: KafkaCluster) -> Iterator[None]:
    """Kill the cluster within the context."""
    cluster.kill()
    yield
    cluster.start()


@contextmanager
def failed_disk(scene: Scene, disks: tuple[Path, Path]) -> Iterator[None]:
    """Fail a disk with a partition of the copy within the context, so that the broker takes it offline.

    Afterwards the broker restarts with the original disk, and every record arrives once.
    """
    broker = scene.kafka.destination
    disk = next(one for one in disks if (one / f"copy.{scene.name}-0").exists())
    away = disk.with_suffix(".away")
    disk.rename(away)
    topic = f"copy.{scene.name}"
    admin = admin_client(broker.address)
    wait_until(
        lambda: admin.list_topics(topic).topics[topic].partitions[0].leader == -1, "the partition is offline"
    )
    yield
    broker.kill()
    shutil.rmtree(disk, ignore_errors=True)
    away.rename(disk)
    broker.start()
    scene.wait_for_copy()
    here, there = (
        read_all(scene.kafka.source.address, scene.name),
        read_all(broker.address, topic),
    )
    assert by_partition(there) == by_partition(here)


def bring_about(disks: tuple[Path, Path], scene: Scene, situation: str, ending: ExitStack) -> None:
    scene.begin_copied()
    source, destination = scene.kafka
    if situation in THROTTLED:
        side = source if THROTTLED[situation] == READING else destination
        ending.enter_context(throttled(side.address, THROTTLED[situation], "headrace-one", QUOTA))
        scene.write(40, size=QUOTA // PARTITIONS)
        # As long as records arrive faster than the quota allows, however late somebody looks.
        rates = dict.fromkeys(range(PARTITIONS), float(QUOTA))
        ending.enter_context(traffic(source.address, {scene.name: rates}))
        ending.callback(no_rebalance_is_asked_for, scene, THROTTLED[situation])
        return
    side = source if situation.startswith("the source") else destination
    if "may not" in situation and "described" not in situation:
        _allow_the_rest(side.address, scene.name if side is source else f"copy.{scene.name}")
    if situation == "the source topic may not be described":
        ending.enter_context(Forbidden(source.address, scene.name, AclOperation.DESCRIBE))
    elif situation == "the source topic may not be read":
        ending.enter_context(Forbidden(source.address, scene.name, AclOperation.READ))
    elif situation == "the destination topic may not be written":
        ending.enter_context(Forbidden(destination.address, f"copy.{scene.name}", AclOperation.WRITE))
    elif situation == "a disk of the destination has failed":
        ending.enter_context(failed_disk(scene, disks))
    elif situation.endswith("frozen"):
        while not _freeze(scene, side, situation, ending):
            scene.wait_for_copy()
        return
    else:
        ending.enter_context(killed(side))
    if side is destination:
        scene.write()


def _freeze(scene: Scene, side: KafkaCluster, situation: str, ending: ExitStack) -> bool:
    """Freeze a cluster until the lanes say how long they wait, and leave it frozen. If the lanes have paused
    before anybody looked, thaw it again and return False."""
    with ExitStack() as frozen_side:
        frozen_side.enter_context(frozen(side.nodes[0].pid))
        if side is scene.kafka.destination:
            scene.write()
        seen = partial(named_or_given_up, scene, CAUSES[situation])
        if wait_until(seen, f"{situation}: lanes say how long they wait", interval_seconds=0.1) == "given up":
            return False
        ending.push(frozen_side.pop_all())
    return True


def _allow_the_rest(address: str, topic: str) -> None:
    """Allow all other operations on a topic: one with any deny rule is otherwise closed and hidden."""
    what = (ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, "User:*", "*", AclOperation.ALL)
    add_rules(admin_client(address), [AclBinding(*what, AclPermissionType.ALLOW)])


class Late:
    """Measurements of a late datastream. Satisfies `monitor.ports.Measurements`."""

    remark = ""

    def __init__(self, name: str) -> None:
        self._name = name

    def observe(
        self, window_seconds: float, least_ms: int = 0, together: Collection[Source] = ()
    ) -> Observations:
        late = LatencyObservation(0, (0,) * LATENCY_BUCKETS, OBJECTIVE_MS + 1)
        return {Source(self._name, "source"): {self._name: late}}

    def late(self, sources: Collection[Source], since_ms: int, least_ms: int) -> LateTopics | None:
        return None


def no_rebalance_is_asked_for(scene: Scene, side: str) -> None:
    """Check that the monitor names the owner of the brokers' quota and requests no rebalance."""
    with closing(RestClient(scene.instance.address)) as client:
        service, policy = RestService(client), IncidentPolicy(open_after=1)
        cycle = MonitorCycle(service, Late(scene.name), policy, SystemClock(), 60.0)
        finding = cycle.evaluate()[DatastreamName(scene.name)]
        operations = client.get("/v1/operations", datastream=scene.name)
    found = finding.diagnosis
    assert found is not None, finding
    assert found.cause is Cause.BROKER_QUOTA, found
    owner = QuotaOwner.SOURCE if side == READING else QuotaOwner.DESTINATION
    assert found.evidence["quota"] == owner, found
    assert isinstance(found.evidence["broker"], int)
    assert found.sentence in finding.action
    assert "rebalance" not in finding.action
    assert not [one for one in operations if one["kind"] == "rebalance"]


def part_stands_still(seen: Snapshot) -> bool:
    """Return whether partitions on a failed disk have paused, and every report shows it."""
    paused = [lane for lane in seen.lanes if lane["phase"] == "paused"]
    return (
        bool(paused)
        and all(lane["reason"] and lane["lag_records"] != 0 for lane in paused)
        and stands_still(replace(seen, lanes=[*paused, *paused][:PARTITIONS]))
    )


def is_hidden(seen: Snapshot) -> bool:
    """Return whether the datastream reports that a selected topic is hidden by missing rights."""
    problem = seen.datastream.get("problem") or {"reason": ""}
    return (
        seen.status == 503
        and "TOPIC_AUTHORIZATION_FAILED" in problem["reason"]
        and "problem" in seen.events
        and not is_0_somewhere(seen)
        and seen.standing != ObjectiveStatus.WITHIN
    )


def is_held_back_for_reading(seen: Snapshot) -> bool:
    """Return whether a quota of the source brokers is named."""
    return is_held_back(seen, QuotaOwner.SOURCE)


def is_held_back_for_writing(seen: Snapshot) -> bool:
    """Return whether a quota of the destination brokers is named."""
    return is_held_back(seen, QuotaOwner.DESTINATION)


def stands_still_for(cause: Cause, seen: Snapshot) -> bool:
    """Return whether copying has stopped and the monitor finds this cause, which no placement can help."""
    if not stands_still(seen):
        return False
    found = diagnosed(seen)
    return found.cause is cause and not found.placement_can_help


CAUSES: Final = {
    "the source is frozen": Cause.SOURCE_AWAY,
    "the source is dead": Cause.SOURCE_AWAY,
    "the destination is frozen": Cause.DESTINATION_AWAY,
    "the destination is dead": Cause.DESTINATION_AWAY,
}
SLOWER: Final = {
    Cause.SOURCE_AWAY: Cause.SOURCE_BOUND,
    Cause.DESTINATION_AWAY: Cause.DESTINATION_BOUND,
}
"""Causes of a cluster that may still answer."""
WAITED_MS: Final = 1_000
"""Longer than any response of a healthy cluster."""


def named_or_given_up(scene: Scene, cause: Cause) -> str:
    """Return "named" if a cluster is the cause because it has not responded for long while all lanes copy,
    "given up" if a lane does not copy any longer, otherwise nothing."""
    lanes = [lane for lane in scene.instance.lanes() if lane["datastream"] == scene.name]
    if any(lane["phase"] != "copying" for lane in lanes):
        return "given up"
    source = Source(scene.name, "source")
    found = diagnose(evidence_of({"lanes": lanes, "instances": []}, source, TopicSelection(".*")), WAITED_MS)
    return "named" if found.cause in {cause, SLOWER[cause]} and " response" in found.sentence else ""


SHOWN: Final[Mapping[str, Shown]] = {
    **dict.fromkeys(SERVERS, stands_still),
    **{situation: partial(stands_still_for, cause) for situation, cause in CAUSES.items()},
    **dict(zip(THROTTLED, (is_held_back_for_reading, is_held_back_for_writing), strict=True)),
    "a disk of the destination has failed": part_stands_still,
    "the source topic may not be described": is_hidden,
}
"""Conditions under which each situation is shown correctly."""


def is_late(seen: Snapshot) -> bool:
    """Return whether no lag is 0, and the objective is missed or the lanes give the reason of their pause."""
    says_why = all(lane["phase"] == "paused" and lane["reason"] for lane in seen.lanes)
    return (
        len(seen.lanes) == PARTITIONS
        and not is_0_somewhere(seen)
        and (seen.standing in {ObjectiveStatus.HALTED, ObjectiveStatus.BREACHED} or says_why)
    )


def answers_late(seen: Snapshot) -> bool:
    """Return whether no lag is 0, and the lanes report the response time of the cluster."""
    return (
        lanes_are(seen, "paused")
        and all(" responds after " in lane["reason"] for lane in seen.lanes)
        and not is_0_somewhere(seen)
        and seen.status == 503
        and diagnosed(seen).cause is Cause.SOURCE_AWAY
    )


def test_a_cluster_that_is_away_is_shown_where_people_look(
    kafka_pair: KafkaPair,
    zookeeper_server: ZooKeeperServer,
    new_instance: NewInstance,
    service_name: str,
    disks: tuple[Path, Path],
    detours: list[int],
) -> None:
    """The instances coordinate through ZooKeeper, because both clusters are away in turn."""
    store = on_zookeeper(zookeeper_server, service_name)
    one = new_instance("one", **store)
    Scene(kafka_pair, one).rows(SERVERS, partial(bring_about, disks), SHOWN)
    one.stop()
    with ExitStack() as stack:
        ports = {
            f"the {cluster.name} is slow": stack.enter_context(
                SlowPort(port, cluster.nodes[0].address_of(DETOUR))
            )
            for port, cluster in zip(detours, kafka_pair, strict=True)
        }

        def slow_down(scene: Scene, situation: str, ending: ExitStack) -> None:
            scene.begin_copied()
            ending.enter_context(ports[situation].delayed(SLOW_SECONDS))
            scene.write()

        source, destination = (f"{LOOPBACK}:{port}" for port in detours)
        two = new_instance(
            "two",
            clusters__source__bootstrap_servers=source,
            clusters__destination__bootstrap_servers=destination,
            **store,
        )
        Scene(kafka_pair, two).rows(SLOW, slow_down, dict(zip(SLOW, (answers_late, is_late), strict=True)))
        two.stop()
