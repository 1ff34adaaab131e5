"""Retirement of topics of a fake cluster, in virtual time: observations, steps, kills, restorations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from mirror.client.access import ClusterAccess, endpoints
from mirror.control.commands import ChangeStatus
from mirror.coordination.topic_retirement import Retirement, RetirementPhase, WriteDenial
from mirror.coordination.topic_use import KeepReason, TopicEvidence, UnusedRules
from mirror.errors import (
    HeadraceError,
    IllegalTransition,
    InvalidRequest,
    NotAuthorized,
    NotFound,
    Unreachable,
    VersionConflict,
)
from mirror.jobs.groups.decision import FollowReason, SyncedPosition
from mirror.jobs.groups.record import FollowedGroup, FollowedPosition, GroupKeys, write_group
from mirror.jobs.retirement.steps import RetirementOutcome, RetirementRequest
from mirror.jobs.retirement.store import RetirementStore, StoredRetirement
from mirror.model.datastreams.datastream import DatastreamStatus
from mirror.model.identifiers import ClusterRef, DatastreamName, GroupName
from mirror.model.topics import TopicPartition
from mirror.replication.context import EngineContext, EngineIdentity
from mirror.replication.options import CopyingOptions
from tests.builders import DESTINATION, SOURCE
from tests.fakes.broker.cluster import FakeCluster
from tests.fakes.broker.faults import Code
from tests.fakes.broker.mirrored import MirroredFakes
from tests.fakes.broker.virtual import VirtualSelector
from tests.fakes.site import Site

DESCRIBE_GROUPS, LIST_GROUPS, DELETE_TOPICS, DELETE_RECORDS = 15, 16, 20, 21
DESCRIBE_ACLS, CREATE_ACLS, DELETE_ACLS = 29, 30, 31
NO_RIGHTS_ON_TOPIC, NO_RIGHTS_ON_GROUP, NO_RIGHTS_ON_CLUSTER = 29, 30, 31
DAYS, WAIT_DAYS = 60, 7
DAY_SECONDS = 86_400
SEEN_EVERY_DAYS = 3
P = RetirementPhase


class Killed(BaseException):
    """End of the process."""


class Retiring:
    """A service with datastream `only`, which copies topic `t` and nothing else; the fake source also has
    topic `busy`. Each call uses new connections, as after a restart."""

    def __init__(self, fakes: MirroredFakes) -> None:
        self.fakes = fakes
        self.source = fakes.source
        self.site = Site()
        self.site.ask_cluster = self.ask
        for name in ("t", "busy"):
            fakes.make_topic(name, 3)
            fakes.write(name, 0, 10)
        self.site.create("only")
        self.retirements = self.site.services.retirements
        self.steps_left: int | None = None

    def ask(self, cluster: ClusterRef, question: Any) -> Any:
        fakes = self.fakes
        addresses = {SOURCE: fakes.source.address, DESTINATION: fakes.target.address}
        context = EngineContext(
            lambda ref: ClusterAccess(endpoints(addresses[ref])),
            CopyingOptions(request_timeout_seconds=5.0),
            EngineIdentity("test"),
            fakes.clock,
            VirtualSelector(fakes.clock, [fakes.source, fakes.target]),
        )
        context.loop.new_socket = fakes.network.socket
        try:
            self.step()
            found = context.run(question(context.cluster(cluster)), 30.0)
            self.step()
            return found
        finally:
            context.close()

    def step(self) -> None:
        """Pass a point at which the process may be killed."""
        if self.steps_left is not None:
            self.steps_left -= 1
            if self.steps_left < 0:
                self.steps_left = None
                raise Killed

    def watch(self, days: int = DAYS) -> None:
        """Let time pass while the leader observes the source and the destination, which do not change."""
        datastreams = self.site.services.control.list_again().datastreams
        watch = self.retirements.watch
        observations = {cluster: watch.observe(cluster, datastreams)[0] for cluster in (SOURCE, DESTINATION)}
        for _ in range(days // SEEN_EVERY_DAYS):
            self.pass_days(SEEN_EVERY_DAYS)
            for cluster, observation in observations.items():
                watch.store.note(cluster, observation, self.site.clock.now_ms())

    def pass_days(self, days: int) -> None:
        self.site.clock.advance(days * DAY_SECONDS)

    def evidence(self, topic: str = "t", cluster: ClusterRef = SOURCE) -> TopicEvidence:
        found = self.retirements.unused(self.site.services.control, cluster, DAYS)
        return next(one for one in found if one.topic == topic)

    def reasons(self, topic: str = "t", cluster: ClusterRef = SOURCE) -> set[KeepReason]:
        return set(self.evidence(topic, cluster).reasons)

    def retire(self, topic: str = "t", *, dry_run: bool = False, **more: Any) -> RetirementOutcome:
        request = RetirementRequest(SOURCE, topic, DAYS, WAIT_DAYS * DAY_SECONDS * 1_000)._replace(**more)
        return self.retirements.retire(self.site.services.control, request, dry_run=dry_run)

    def restore(self, topic: str = "t") -> RetirementOutcome:
        return self.retirements.restore(self.site.services.control, SOURCE, topic, "", "")

    @property
    def stored(self) -> Retirement | None:
        found = self.retirements.store.get(SOURCE, "t")
        return found.retirement if found is not None else None

    @property
    def status(self) -> DatastreamStatus:
        return self.site.stored("only").status

    def finish(self) -> None:
        """Repeat the call until the topic is deleted."""
        for _ in range(10):
            if self.retire().is_over:
                return
        raise AssertionError("the retirement does not end")


@pytest.fixture
def retiring(new_fakes: Callable[..., MirroredFakes]) -> Retiring:
    made = Retiring(new_fakes())
    made.watch()
    return made


def read(cluster: FakeCluster, topic: str, group: str = "billing", offset: int = 5) -> None:
    cluster.groups.setdefault(group, {})[topic, 0] = offset


def test_an_unused_topic_is_shown_with_its_evidence(retiring: Retiring) -> None:
    found = retiring.evidence()
    assert found.is_unused
    assert (found.observation.partitions, found.observation.records, found.observation.readers) == (3, 10, ())
    assert found.observation.bytes == 20  # two replicas
    assert [one.datastream for one in found.selectors] == ["only"]
    assert found.history is not None
    assert found.history.first_ms <= retiring.site.clock.now_ms() - (DAYS - SEEN_EVERY_DAYS) * 86_400_000


def test_a_topic_is_young_until_it_was_seen_for_so_long(new_fakes: Callable[..., MirroredFakes]) -> None:
    retiring = Retiring(new_fakes())
    assert KeepReason.YOUNG in retiring.reasons()  # whatever the timestamps of its records
    retiring.watch(DAYS - SEEN_EVERY_DAYS)
    assert KeepReason.YOUNG in retiring.reasons()
    retiring.watch(SEEN_EVERY_DAYS)
    assert retiring.reasons() == set()
    retiring.source.recreate_topic("t")
    assert KeepReason.YOUNG in retiring.reasons()


def test_a_topic_in_use_is_not_proposed(retiring: Retiring) -> None:
    read(retiring.source, "t")
    assert retiring.reasons() == {KeepReason.READERS}
    del retiring.source.groups["billing"]  # its offsets have expired
    assert retiring.reasons() == {KeepReason.READERS}  # but it was seen
    retiring.watch()
    assert retiring.reasons() == set()
    retiring.fakes.write("t", 10, 1)
    assert retiring.reasons() == {KeepReason.INFLOW}
    with pytest.raises(IllegalTransition):
        retiring.retire()
    assert retiring.stored is None


@pytest.mark.parametrize("kind", ["Classic", "Consumer", "Share", "Streams", ""])
def test_a_member_without_offsets_is_a_reader(retiring: Retiring, kind: str) -> None:
    retiring.source.group_states["live"] = (kind, "Stable")
    retiring.source.group_members["live"] = {"t"}
    found = retiring.evidence()
    assert [(one.group, one.has_members, one.has_offsets) for one in found.observation.readers] == [
        ("live", True, False)
    ]
    assert KeepReason.READERS not in retiring.reasons("busy")


def test_a_share_group_without_members_is_a_reader_by_its_start_offset(retiring: Retiring) -> None:
    retiring.source.group_states["shared"] = ("Share", "Empty")
    read(retiring.source, "t", group="shared")
    assert retiring.reasons() == {KeepReason.READERS}
    assert KeepReason.READERS not in retiring.reasons("busy")


def test_groups_whose_topics_are_unknown_keep_every_topic(retiring: Retiring) -> None:
    retiring.source.group_states["shared"] = ("Streams", "Stable")  # without a topology
    assert retiring.reasons() == {KeepReason.UNKNOWN_READERS}
    assert retiring.evidence().unknown_groups == ("shared",)
    retiring.source.group_states = {"live": ("Classic", "PreparingRebalance")}
    retiring.source.group_members["live"] = set()
    retiring.source.protocol_type = "custom"
    assert retiring.reasons() == {KeepReason.UNKNOWN_READERS}
    retiring.source.protocol_type = "connect"  # workers, which read no topic in this group
    assert retiring.reasons() == set()
    retiring.source.faults.plant(DESCRIBE_GROUPS, Code(NO_RIGHTS_ON_GROUP), times=None)
    assert retiring.reasons() == {KeepReason.UNKNOWN_READERS}


def test_a_broker_that_does_not_list_its_groups_hides_readers(retiring: Retiring) -> None:
    retiring.source.faults.plant(
        LIST_GROUPS, Code(NO_RIGHTS_ON_CLUSTER), fits=lambda asked: asked.broker == 1
    )
    with pytest.raises(Unreachable):
        retiring.evidence()


def test_the_mirrors_own_groups_are_no_readers(retiring: Retiring) -> None:
    read(retiring.source, "t", group="only")
    assert retiring.reasons() == set()


def test_offsets_that_the_mirror_committed_for_a_group_are_no_use(retiring: Retiring) -> None:
    datastream = retiring.site.stored("only")
    place = TopicPartition("t", 0)
    position = FollowedPosition(5, 5, place, FollowReason.CURRENT, True, SyncedPosition(5, 5))
    group = FollowedGroup("billing", positions={place: position})
    keys = GroupKeys(GroupName(datastream.group), datastream.name)
    retiring.site.followed[keys.of("billing")] = write_group(group)
    followed = replace(datastream, metadata={**datastream.metadata, "headrace-groups": ".*"})
    read(retiring.fakes.target, "t")
    observation, _ = retiring.retirements.watch.observe(DESTINATION, [datastream])
    assert [one.group for one in observation.topics["t"].readers] == ["billing"]
    observation, _ = retiring.retirements.watch.observe(DESTINATION, [followed])
    assert observation.topics["t"].readers == ()
    read(retiring.fakes.target, "t", offset=6)  # somebody else committed
    observation, _ = retiring.retirements.watch.observe(DESTINATION, [followed])
    assert [one.group for one in observation.topics["t"].readers] == ["billing"]


def test_only_topics_that_nothing_else_shares_may_be_selected(retiring: Retiring) -> None:
    assert retiring.evidence(cluster=DESTINATION).is_unused
    retiring.site.create(
        "all",
        source={"cluster": "source", "topics": "t.*"},
        destination={"cluster": "destination", "name": "x.*"},
    )
    assert KeepReason.SELECTED in retiring.reasons()
    assert retiring.reasons(cluster=DESTINATION) == set()
    assert not retiring.evidence("busy").selectors


def test_a_retirement_seals_waits_and_deletes(retiring: Retiring) -> None:
    retiring.source.denied = set()
    planned = retiring.retire(dry_run=True)
    assert (planned.retirement.denial, planned.retirement.paused) == (WriteDenial.WANTED, ("only",))
    assert retiring.stored is None
    assert retiring.source.denied == set()
    sealed = retiring.retire()
    assert (sealed.retirement.phase, sealed.retirement.denial) == (P.SEALED, WriteDenial.MADE)
    assert retiring.source.denied == {"t"}
    assert retiring.status is DatastreamStatus.PAUSED
    assert retiring.retire().retirement.phase is P.SEALED  # too early
    retiring.watch(WAIT_DAYS + 2)
    assert retiring.retire(dry_run=True).retirement.phase is P.SEALED
    emptied = retiring.retire()
    assert (emptied.retirement.phase, emptied.retirement.emptied) == (P.DELETING, 3)
    assert retiring.source.log("t").start == 10
    assert retiring.retire().is_over
    assert "t" not in retiring.source.topics
    assert "busy" in retiring.source.topics
    assert retiring.source.denied == set()
    assert retiring.stored is None
    sentences = [one.sentence for one in retiring.site.services.events.newest(20)]
    assert [word for word in ("sealed", "deleted") if any(word in one for one in sentences)] == [
        "sealed",
        "deleted",
    ]


def test_a_retirement_is_taken_back_in_every_phase(retiring: Retiring) -> None:
    retiring.source.denied = set()
    for phase in (P.SEALED, P.DELETING):
        retiring.retire()
        if phase is P.DELETING:
            retiring.watch(WAIT_DAYS + 2)
            retiring.retire()
        found = retiring.stored
        assert found is not None
        assert found.phase is phase
        assert retiring.restore().is_over
        assert retiring.source.denied == set()
        assert retiring.status is DatastreamStatus.READY
        assert retiring.stored is None
    with pytest.raises(NotFound):
        retiring.restore()


def test_a_restoration_resumes_only_what_the_retirement_paused(retiring: Retiring) -> None:
    retiring.source.denied = {"t"}  # an ACL of somebody else
    retiring.site.services.control.change_status(ChangeStatus(DatastreamName("only"), "pause"))
    sealed = retiring.retire().retirement
    assert (sealed.denial, sealed.paused) == (WriteDenial.FOUND, ())
    retiring.restore()
    assert retiring.source.denied == {"t"}
    assert retiring.status is DatastreamStatus.PAUSED


@pytest.mark.parametrize("change", ["reader", "write", "resume", "datastream", "recreate", "delete"])
def test_use_after_the_seal_prevents_the_deletion(retiring: Retiring, change: str) -> None:
    retiring.retire()
    retiring.watch(WAIT_DAYS + 2)
    match change:
        case "reader":
            read(retiring.source, "t")
        case "write":
            retiring.fakes.write("t", 10, 1)
        case "resume":
            retiring.site.services.control.change_status(ChangeStatus(DatastreamName("only"), "resume"))
        case "datastream":
            retiring.site.create("new", destination={"cluster": "destination", "name": "new.*"})
        case "recreate":
            retiring.source.recreate_topic("t")
        case "delete":
            retiring.source.delete_topic("t")
    with pytest.raises(IllegalTransition):
        retiring.retire()
    assert retiring.stored is not None
    assert retiring.stored.phase is P.SEALED
    if change != "delete":
        assert retiring.source.log("t").start == 0
    assert retiring.restore().is_over


def test_a_reader_that_arrives_between_two_deletions_stops_them(retiring: Retiring) -> None:
    retiring.retire()
    retiring.watch(WAIT_DAYS + 2)
    retiring.retire()
    read(retiring.source, "t")
    with pytest.raises(IllegalTransition):
        retiring.retire()
    assert "t" in retiring.source.topics
    assert retiring.stored is not None
    assert retiring.stored.problem
    del retiring.source.groups["billing"]
    with pytest.raises(IllegalTransition):  # it has read since the seal
        retiring.retire()


def test_a_restoration_during_the_last_check_prevents_the_deletion(
    retiring: Retiring, monkeypatch: pytest.MonkeyPatch
) -> None:
    retiring.retire()
    retiring.watch(WAIT_DAYS + 2)
    retiring.retire()
    restorations = iter([retiring.restore])

    def restore_meanwhile() -> None:
        for restore in restorations:
            assert restore().is_over

    monkeypatch.setattr(retiring, "step", restore_meanwhile)
    with pytest.raises(VersionConflict):
        retiring.retire()
    assert "t" in retiring.source.topics


def test_a_topic_created_again_after_the_last_check_survives(retiring: Retiring) -> None:
    retiring.retire()
    retiring.watch(WAIT_DAYS + 2)
    retiring.retire()
    retiring.source.recreate_topic("t")
    assert retiring.retire().is_over
    assert "t" in retiring.source.topics


def test_missing_rights_leave_nothing_half_done(retiring: Retiring) -> None:
    retiring.source.denied = set()
    for api in (DESCRIBE_ACLS, CREATE_ACLS):
        retiring.source.faults.plant(api, Code(NO_RIGHTS_ON_CLUSTER), times=1)
        with pytest.raises(NotAuthorized):
            retiring.retire()
        assert retiring.stored is None
        assert retiring.status is DatastreamStatus.READY
    retiring.source.faults.plant(DESCRIBE_ACLS, Code(NO_RIGHTS_ON_CLUSTER), times=None)
    sealed = retiring.retire(denies_writes=False).retirement
    assert (sealed.phase, sealed.denial) == (P.SEALED, WriteDenial.NOT_WANTED)


def test_missing_rights_to_delete_are_reported_and_can_be_granted(retiring: Retiring) -> None:
    retiring.retire()
    retiring.watch(WAIT_DAYS + 2)
    for api in (DELETE_RECORDS, DELETE_TOPICS):
        retiring.source.faults.plant(api, Code(NO_RIGHTS_ON_TOPIC), times=1)
        with pytest.raises(NotAuthorized):
            retiring.finish()
    retiring.finish()
    assert "t" not in retiring.source.topics


def test_a_cluster_without_authorizer_is_sealed_without_an_acl(retiring: Retiring) -> None:
    assert retiring.retire().retirement.denial is WriteDenial.NO_AUTHORIZER
    retiring.watch(WAIT_DAYS + 2)
    retiring.finish()


def test_a_cluster_that_never_answers_changes_nothing(retiring: Retiring) -> None:
    for node in list(retiring.source.brokers):
        retiring.source.freeze(node)
    with pytest.raises(Unreachable):
        retiring.retire()
    assert retiring.stored is None
    for node in list(retiring.source.brokers):
        retiring.source.thaw(node)
    retiring.retire()
    for node in list(retiring.source.brokers):
        retiring.source.freeze(node)
    retiring.pass_days(WAIT_DAYS + 1)
    with pytest.raises(Unreachable):
        retiring.retire()
    assert retiring.stored is not None
    assert retiring.stored.phase is P.SEALED


@pytest.mark.parametrize("name", ["", "t" * 250, "thé", "a/b", "..", "t\n", "\udcff"])
def test_impossible_names_are_refused(retiring: Retiring, name: str) -> None:
    with pytest.raises(InvalidRequest):
        retiring.retire(name)


def test_unknown_and_internal_topics_are_refused(retiring: Retiring) -> None:
    with pytest.raises(NotFound):
        retiring.retire("missing")
    retiring.source.create_topic("headrace-progress")
    retiring.source.create_topic("table", cleanup_policy="compact")
    retiring.source.create_topic("archive-1")
    retiring.watch()
    for name, reason in (("headrace-progress", KeepReason.INTERNAL), ("table", KeepReason.COMPACTED)):
        assert retiring.reasons(name) == {reason}
        with pytest.raises(IllegalTransition):
            retiring.retire(name)
    assert retiring.reasons("archive-1") == set()
    rules = UnusedRules(keep=("archive-*",))
    retiring.retirements = replace(retiring.retirements, rules=rules)
    assert retiring.reasons("archive-1") == {KeepReason.ALLOW_LIST}


class SteppedStore(RetirementStore):
    """Store with points at which the process may be killed, before and after each change."""

    def __init__(self, retiring: Retiring) -> None:
        super().__init__(retiring.site.session)
        self._step = retiring.step

    def begin(self, retirement: Retirement) -> StoredRetirement:
        self._step()
        found = super().begin(retirement)
        self._step()
        return found

    def change(self, before: StoredRetirement, after: Retirement) -> StoredRetirement:
        self._step()
        found = super().change(before, after)
        self._step()
        return found

    def end(self, before: StoredRetirement) -> None:
        self._step()
        super().end(before)
        self._step()


def killed_at(
    make: Callable[[], Retiring], act: Callable[[Retiring], object], point: int
) -> tuple[Retiring, bool]:
    """Run an act and kill it at a point; return the service, and whether the act was killed."""
    retiring = make()
    retiring.retirements = replace(retiring.retirements, store=SteppedStore(retiring))
    retiring.steps_left = point
    try:
        act(retiring)
    except Killed:
        return retiring, True
    retiring.steps_left = None
    return retiring, False


def test_a_kill_anywhere_is_continued(new_fakes: Callable[..., MirroredFakes]) -> None:
    def make() -> Retiring:
        made = Retiring(new_fakes(brokers=1))
        made.source.denied = set()
        made.watch()
        return made

    def retire(retiring: Retiring) -> None:
        found = retiring.retire()
        if found.retirement.phase is not P.DELETING:
            retiring.watch(WAIT_DAYS + 2)
        if not found.is_over:
            retiring.finish()

    point, is_killed = 0, True
    while is_killed:
        retiring, is_killed = killed_at(make, retire, point)
        if is_killed and "t" in retiring.source.topics:
            retire(retiring)
        elif is_killed and retiring.stored is not None:
            assert retiring.retire().is_over
        assert "t" not in retiring.source.topics
        assert retiring.source.denied == set()
        assert retiring.stored is None
        assert retiring.status is DatastreamStatus.PAUSED
        point += 7
    assert point > 30


def test_a_killed_restoration_is_continued(new_fakes: Callable[..., MirroredFakes]) -> None:
    def make() -> Retiring:
        made = Retiring(new_fakes(brokers=1))
        made.source.denied = set()
        made.watch()
        made.retire()
        return made

    point, is_killed = 0, True
    while is_killed:
        retiring, is_killed = killed_at(make, Retiring.restore, point)
        if is_killed and retiring.stored is not None:
            if retiring.stored.phase is P.RESTORING:
                with pytest.raises(IllegalTransition):
                    retiring.retire()
            retiring.restore()
        assert retiring.source.denied == set()
        assert retiring.status is DatastreamStatus.READY
        point += 1


def test_two_retirements_at_once_conflict_and_do_no_harm(retiring: Retiring) -> None:
    class Overtaken(RetirementStore):
        """Store in which another caller does the same first."""

        def begin(self, retirement: Retirement) -> StoredRetirement:
            super().begin(retirement)
            return super().begin(retirement)

        def change(self, before: StoredRetirement, after: Retirement) -> StoredRetirement:
            super().change(before, after)
            return super().change(before, after)

    other = replace(retiring.retirements, store=Overtaken(retiring.site.session))
    mine, retiring.retirements = retiring.retirements, other
    for expected in (IllegalTransition, VersionConflict):
        with pytest.raises(expected):
            retiring.retire()
    retiring.retirements = mine
    assert retiring.retire().retirement.phase is P.SEALED
    retiring.watch(WAIT_DAYS + 2)
    retiring.finish()


def test_errors_of_a_damaged_store_are_reported(retiring: Retiring) -> None:
    retiring.retire()
    (path,) = [path for path in retiring.site.server.dump() if path.startswith("/retirements/")]
    node = retiring.site.session.read(path)
    retiring.site.session.write(path, b'{"phase": "unknown"}', node.version)
    with pytest.raises(HeadraceError):
        retiring.retire()
    for path in [path for path in retiring.site.server.dump() if path.startswith("/topic-use/")]:
        node = retiring.site.session.read(path)
        retiring.site.session.write(path, b"damaged", node.version)
    assert KeepReason.YOUNG in retiring.reasons()
