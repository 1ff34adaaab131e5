"""Test the use cases of REST and the command line."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest

from mirror.control.admission import Admission, ClusterRights
from mirror.control.commands import (
    ChangePauses,
    ChangeStatus,
    CreateDatastream,
    MovePartitions,
    TriggerRebalance,
    UpdateDatastream,
)
from mirror.control.handlers import Control, ControlStores
from mirror.coordination.stores.definitions import Definitions, DefinitionStore
from mirror.coordination.stores.events import EventLog
from mirror.coordination.stores.membership import LiveInstance, Membership
from mirror.coordination.stores.requests import MoveRequest, RebalanceRequest, RequestQueue
from mirror.errors import (
    AlreadyExists,
    IllegalTransition,
    InvalidRequest,
    NotFound,
    Unreachable,
    VersionConflict,
)
from mirror.model.datastreams.datastream import (
    Datastream,
    DatastreamStatus,
    PartitionPause,
    StartPosition,
)
from mirror.model.datastreams.pauses import read_partitions
from mirror.model.identifiers import ClusterRef, DatastreamName, GroupName, InstanceName
from mirror.model.load import TaskLimits
from mirror.model.metrics import PlacementEvent
from mirror.model.topics import TopicNaming
from tests.builders import DESTINATION, OPEN_CLUSTERS, SOURCE, a_datastream, partitions
from tests.fakes.clock import ManualClock
from tests.fakes.instances import gate_of
from tests.fakes.node_store import FakeSession, FakeZooKeeper, Operation
from tests.fakes.topic_admin import FakeTopicAdmin

ORDERS = DatastreamName("orders")
THIRD = ClusterRef("third")


class ControlRig:
    def __init__(self) -> None:
        self.server = FakeZooKeeper()
        self.session: FakeSession = self.server.session()
        self.clusters = {SOURCE: FakeTopicAdmin(t=1), DESTINATION: FakeTopicAdmin(), THIRD: FakeTopicAdmin()}
        self.definitions = DefinitionStore(self.server.session())
        self.requests = RequestQueue(self.server.session())
        self.told: list[PlacementEvent] = []
        self.control = Control.build(
            ControlStores(
                DefinitionStore(self.session),
                RequestQueue(self.session),
                Membership(self.session),
                EventLog(self.session),
                self.told.extend,
            ),
            Admission({**OPEN_CLUSTERS.clusters, THIRD: ClusterRights()}),
            ManualClock(1234),
            gate_of(self.session, self.clusters, ManualClock()),
        )

    def create(self, datastream: Datastream) -> Datastream:
        return self.control.creations.create(CreateDatastream(datastream)).datastream

    def change(self, action: str) -> Datastream:
        return self.control.change_status(ChangeStatus(ORDERS, action)).datastream

    def stored(self) -> Datastream:
        return self.definitions.get(ORDERS).datastream


@pytest.fixture
def office() -> ControlRig:
    return ControlRig()


def test_a_new_datastream_begins_initializing_whatever_was_asked(office: ControlRig) -> None:
    made = office.create(a_datastream(status=DatastreamStatus.READY))
    assert made.status is DatastreamStatus.INITIALIZING
    assert made.metadata["system.creation.ms"] == "1234"
    assert office.stored() == made == office.control.get(ORDERS)
    assert office.control.list().datastreams == (made,)


def test_somebody_must_own_it(office: ControlRig) -> None:
    for metadata in ({}, {"owner": ""}):
        with pytest.raises(InvalidRequest, match="owner"):
            office.create(replace(a_datastream(), metadata=metadata))
    assert office.control.list() == Definitions()


@pytest.mark.parametrize("role", ["source", "destination"])
@pytest.mark.parametrize("name", ["elsewhere", "host:9092"])
def test_its_clusters_are_those_that_are_configured(office: ControlRig, role: str, name: str) -> None:
    unknown: dict[str, Any] = {role: ClusterRef(name)}
    with pytest.raises(InvalidRequest, match=f"{role}.*'{name}'.*destination, source") as refused:
        office.create(a_datastream(**unknown))
    assert [one.pointer for one in refused.value.fields] == [f"/{role}/cluster"]


def test_a_name_is_taken_once(office: ControlRig) -> None:
    office.create(a_datastream())
    with pytest.raises(AlreadyExists):
        office.create(a_datastream())


def test_members_of_a_group_copy_from_one_place_to_one_place(office: ControlRig) -> None:
    shared = {"system.taskPrefix": "both"}
    office.create(a_datastream("a", "t", metadata=shared))
    office.create(a_datastream("b", "u", metadata=shared))
    for other in (
        a_datastream("c", "v", metadata=shared, source=THIRD),
        a_datastream("c", "v", metadata=shared, destination=THIRD),
        a_datastream("c", "v", metadata=shared, naming=TopicNaming("copy.*")),
        a_datastream("both", "v", source=THIRD),
    ):
        with pytest.raises(InvalidRequest, match="group both"):
            office.create(other)


def test_states_change_as_the_life_cycle_allows(office: ControlRig) -> None:
    office.create(a_datastream())
    with pytest.raises(IllegalTransition):
        office.change("pause")
    office.change("delete")
    assert office.stored().status is DatastreamStatus.DELETING
    with pytest.raises(NotFound):
        office.control.change_status(ChangeStatus(DatastreamName("nobody"), "pause"))


def test_a_change_that_others_disturb_is_made_on_what_they_left(office: ControlRig) -> None:
    office.create(a_datastream())
    disturbed: list[DatastreamStatus] = []

    def disturb(operation: Operation) -> None:
        if operation.name == "write" and not disturbed:
            stored = office.definitions.get(ORDERS)
            office.definitions.replace(
                stored, replace(stored.datastream, status=DatastreamStatus.READY, metadata={"owner": "new"})
            )
            disturbed.append(stored.datastream.status)

    office.session.script = disturb
    office.change("delete")
    assert disturbed
    assert office.stored().status is DatastreamStatus.DELETING
    assert office.stored().metadata == {"owner": "new"}


def test_a_change_that_is_always_disturbed_is_given_up(office: ControlRig) -> None:
    office.create(a_datastream())

    def disturb(operation: Operation) -> None:
        if operation.name == "write":
            stored = office.definitions.get(ORDERS)
            office.definitions.replace(stored, stored.datastream)

    office.session.script = disturb
    with pytest.raises(VersionConflict):
        office.change("delete")
    assert office.stored().status is DatastreamStatus.INITIALIZING


def test_a_deletion_of_a_damaged_definition_spares_what_replaces_it_meanwhile(office: ControlRig) -> None:
    office.session.create("/datastreams/orders", b"{")
    seen: list[Operation] = []
    created: list[Datastream] = []

    def repair(operation: Operation) -> None:
        seen.append(operation)
        if len(seen) == 2:
            office.definitions.remove(ORDERS)
            created.append(office.definitions.create(a_datastream()).datastream)

    office.session.script = repair
    with pytest.raises(VersionConflict):
        office.control.delete(ChangeStatus(ORDERS, "delete"))
    assert [office.stored()] == created


def test_a_change_keeps_the_end_of_a_pause_that_ends_meanwhile(office: ControlRig) -> None:
    pauses = {"t": PartitionPause(None, "ticket 7", 1)}
    office.definitions.create(a_datastream(pauses=pauses))
    before = office.control.stored(ORDERS)
    office.control.change_pauses(ChangePauses(ORDERS, read_partitions({"t": "*"}), pause=False))
    after = replace(before.datastream, limits=TaskLimits(max_tasks=2))
    office.control.update(UpdateDatastream(before, after))
    assert (office.stored().limits.max_tasks, office.stored().pauses) == (2, {})
    assert office.stored().resumptions["t"].until_ms == 1234


def test_a_rebalance_is_queued_with_who_asked_and_why(office: ControlRig) -> None:
    office.definitions.create(a_datastream(metadata={"system.taskPrefix": "shared"}))
    request = office.control.rebalance(TriggerRebalance(ORDERS, True, "me", "to see"))
    assert office.requests.pending() == (request,)
    assert isinstance(request, RebalanceRequest)
    assert (request.group, request.full) == ("shared", True)
    assert (request.requested_by, request.reason, request.requested_ms) == ("me", "to see", 1234)


def test_what_has_no_tasks_cannot_be_rebalanced(office: ControlRig) -> None:
    with pytest.raises(NotFound):
        office.control.rebalance(TriggerRebalance(ORDERS, False, "me", ""))
    office.create(a_datastream())
    with pytest.raises(IllegalTransition, match="INITIALIZING"):
        office.control.rebalance(TriggerRebalance(ORDERS, False, "me", ""))
    assert office.requests.pending() == ()


def test_without_zookeeper_every_use_case_says_so(office: ControlRig) -> None:
    office.session.disconnect()
    for attempt in (
        lambda: office.create(a_datastream()),
        lambda: office.control.get(ORDERS),
        office.control.list,
        lambda: office.change("pause"),
    ):
        with pytest.raises(Unreachable):
            attempt()


def pause(office: ControlRig, texts: dict[str, str], reason: str = "a reason") -> Datastream:
    return office.control.change_pauses(ChangePauses(ORDERS, read_partitions(texts), True, reason)).datastream


def resume(office: ControlRig, texts: dict[str, str]) -> Datastream:
    return office.control.change_pauses(ChangePauses(ORDERS, read_partitions(texts), False)).datastream


def test_partitions_are_paused_and_resumed_one_by_one_or_by_topic(office: ControlRig) -> None:
    office.definitions.create(a_datastream())
    pause(office, {"t": "0,3", "u": "*"})
    pause(office, {"t": "5"}, "another")
    assert office.stored().pauses == {
        "t": PartitionPause(frozenset({0, 3, 5}), "another", 1234),
        "u": PartitionPause(None, "a reason", 1234),
    }
    resume(office, {"t": "3,9", "v": "1"})
    assert office.stored().pauses["t"] == PartitionPause(frozenset({0, 5}), "another", 1234)
    with pytest.raises(InvalidRequest, match="topic u "):
        resume(office, {"u": "1"})
    resume(office, {"t": "0,5", "u": "*"})
    assert office.stored().pauses == {}


def test_a_topic_that_is_paused_as_a_whole_stays_so(office: ControlRig) -> None:
    office.definitions.create(a_datastream())
    pause(office, {"t": "1"})
    pause(office, {"t": "*"})
    pause(office, {"t": "2"})
    assert office.stored().pauses["t"].numbers is None


def test_partitions_of_what_is_not_ready_are_not_paused(office: ControlRig) -> None:
    office.create(a_datastream())
    with pytest.raises(IllegalTransition, match="READY"):
        pause(office, {"t": "1"})


@pytest.mark.parametrize("text", ["", "x", "1,x", "-1", "1;2"])
def test_what_are_no_partitions_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest):
        read_partitions({"t": text})


def test_partitions_move_to_an_instance_that_is_here(office: ControlRig) -> None:
    office.definitions.create(a_datastream())
    members = Membership(office.session)
    members.join(LiveInstance(InstanceName("one"), 0, "host-a", 1, "h:1"))
    leaving = members.join(LiveInstance(InstanceName("two"), 0, "host-b", 1, "h:2"))
    members.begin_to_leave(leaving)
    moved = partitions("t-0", "t-7")
    for host in ("one", "host-a"):
        asked = office.control.move(MovePartitions(ORDERS, moved, host, "me"))
        request = office.requests.pending()[-1]
        assert request == MoveRequest(GroupName("orders"), moved, host, "me", 1234, asked.identity) == asked
    for host in ("two", "host-b", "nobody"):
        with pytest.raises(InvalidRequest, match=r": one$"):
            office.control.move(MovePartitions(ORDERS, moved, host, "me"))


def test_a_time_to_live_is_a_number(office: ControlRig) -> None:
    with pytest.raises(InvalidRequest, match=r"system\.ttl\.ms"):
        office.create(a_datastream(metadata={"system.ttl.ms": "soon"}))
    made = office.create(a_datastream(metadata={"system.ttl.ms": "1000"}))
    assert made.expires_ms == 2234


def test_a_list_reads_only_what_has_changed_and_sees_what_was_done_before_it(office: ControlRig) -> None:
    for number in range(20):
        office.definitions.create(a_datastream(f"d-{number:02}", f"t-{number}"))
    assert len(office.control.list().readable) == 20
    before = len(office.session.log)
    assert len(office.control.list().readable) == 20
    assert [one.name for one in office.session.log[before:]] == ["children"]
    office.control.change_status(ChangeStatus(DatastreamName("d-03"), "pause"))
    listed = {one.name: one.status for one in office.control.list().datastreams}
    assert listed[DatastreamName("d-03")] is DatastreamStatus.PAUSED
    office.control.delete(ChangeStatus(DatastreamName("d-04"), "delete"))
    listed = {one.name: one.status for one in office.control.list().datastreams}
    assert listed[DatastreamName("d-04")] is DatastreamStatus.DELETING
    reads = [one.path for one in office.session.log[before:] if one.name == "read"]
    assert len(reads) < 8


def test_many_threads_may_list_while_definitions_come_and_go(office: ControlRig) -> None:
    failures: list[BaseException] = []

    def look() -> None:
        try:
            for _ in range(50):
                names = [one.name for one in office.control.list().datastreams]
                assert names == sorted(names)
        except BaseException as error:  # noqa: BLE001 - told by the thread that waits
            failures.append(error)

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for number in range(30):
        office.definitions.create(a_datastream(f"d-{number:02}", f"t-{number}"))
        if number % 3 == 0:
            office.definitions.remove(DatastreamName(f"d-{number:02}"))
    for thread in threads:
        thread.join()
    assert not failures
    assert len(office.control.list().readable) == 20


def test_members_of_a_group_have_limits_that_agree(office: ControlRig) -> None:
    shared = {"system.taskPrefix": "both"}
    for name, topic in (("a", "t"), ("b", "u")):
        office.create(a_datastream(name, topic, metadata=shared, limits=TaskLimits(1, 3)))
    before = office.definitions.get(DatastreamName("a"))
    after = replace(before.datastream, limits=TaskLimits(4))
    with pytest.raises(InvalidRequest, match=r"\bboth\b.*\b4\b.*\b3\b"):
        office.control.update(UpdateDatastream(before, after))
    assert office.definitions.get(DatastreamName("a")) == before


@pytest.mark.parametrize(
    ("what", "foreign"),
    [
        ("owner", {"metadata": {"owner": "others"}}),
        ("policy", {"metadata": {"headrace.transforms": "keep-keys:none"}}),
        ("policy", {"metadata": {"headrace.on-loss": "continue"}}),
        ("policy", {"metadata": {"headrace.bytes-per-second": "1"}}),
        ("limits", {"limits": TaskLimits(1, 1)}),
        ("start", {"start": StartPosition.LATEST}),
    ],
)
def test_who_joins_a_group_is_as_its_members_are(
    office: ControlRig, what: str, foreign: dict[str, Any]
) -> None:
    office.create(a_datastream("orders", "t"))
    metadata = {"system.taskPrefix": "orders", **foreign.get("metadata", {})}
    stranger = a_datastream("stranger", "t", **{**foreign, "metadata": metadata})
    with pytest.raises(InvalidRequest, match=what) as refused:
        office.create(stranger)
    assert [one.pointer for one in refused.value.fields] == ["/metadata/system.taskPrefix"]
    office.control.creations.create(CreateDatastream(stranger, is_taken_over=True))
    assert office.definitions.get(stranger.name)


def test_a_change_that_costs_nobody_anything_asks_no_cluster(office: ControlRig) -> None:
    office.create(a_datastream("orders", "t"))
    asked = office.clusters[SOURCE].asked
    before = office.definitions.get(ORDERS)
    office.control.update(
        UpdateDatastream(
            before, replace(before.datastream, metadata={**before.datastream.metadata, "note": "n"})
        )
    )
    assert office.clusters[SOURCE].asked == asked
    assert office.stored().metadata["note"] == "n"
    created, changed = office.told
    assert {(one.kind, one.datastream) for one in (created, changed)} == {("command", "orders")}
    assert "created" in created.sentence
    assert changed.sentence.endswith(" /metadata/note")
