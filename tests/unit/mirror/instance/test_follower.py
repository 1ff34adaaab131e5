"""Test the follower: it joins, applies plans, waits for other owners, and releases lanes in time."""

from __future__ import annotations

from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from mirror.coordination.stores import node_codec, znodes
from mirror.coordination.stores.definition_document import to_document
from mirror.coordination.stores.definitions import DefinitionStore
from mirror.coordination.stores.measured_load import MeasuredLoads
from mirror.coordination.stores.membership import Holding, LiveInstance
from mirror.coordination.stores.problems import TroubleStore
from mirror.errors import LoadUnavailable
from mirror.instance.workers.lane_table import NOBODY, LaneLoss, LanePhase
from mirror.instance.workers.quarantine import SUSPECT_DEATHS
from mirror.model.datastreams.datastream import DatastreamStatus
from mirror.model.identifiers import InstanceName
from mirror.model.metrics import WorkerLoss
from mirror.model.plan import Departure
from mirror.model.topics import TopicPartition
from tests.builders import SOURCE, a_datastream, a_key, a_task
from tests.fakes.instances import SESSION_TIMEOUT_SECONDS, FollowerRig
from tests.fakes.lockstep import Lockstep
from tests.fakes.node_store import Fault, Operation
from tests.fakes.planned import MINE, THEIRS, Service, held
from tests.patience import wait_until


@pytest.fixture
def service() -> Service:
    return Service()


def is_well(rig: FollowerRig) -> bool:
    return rig.health.conditions()["follower"].is_well


def test_it_joins_and_runs_what_the_plan_gives_it(service: Service) -> None:
    service.publish(MINE, THEIRS)
    rig = FollowerRig(service.server)
    rig.run_loop()
    assert rig.lanes == ["t-0", "t-1"]
    assert service.holdings() == {"one": held(1)}
    assert rig.follower.epoch == 1
    assert is_well(rig)


def test_it_runs_nothing_as_long_as_there_is_no_plan(service: Service) -> None:
    rig = FollowerRig(service.server)
    rig.run_loop(2)
    assert rig.lanes == []
    service.publish(MINE)
    rig.run_loop()
    assert rig.lanes == ["t-0", "t-1"]


def test_it_joins_when_its_workers_are_up_and_not_before(service: Service) -> None:
    rig = FollowerRig(service.server)
    rig.workers.is_up = False
    service.publish(MINE)
    rig.workers.may_start = False
    rig.run_loop(2)
    assert service.holdings() == {}
    assert not is_well(rig)
    rig.workers.may_start = True
    rig.run_loop(2)
    assert rig.lanes == ["t-0", "t-1"]


def test_it_says_that_it_is_here_before_it_reads_its_first_plan(service: Service) -> None:
    service.publish(MINE)
    rig = FollowerRig(service.server)
    rig.run_loop()
    told = next(one.number for one in rig.session.log if one.name == "create" and "/holdings/" in one.path)
    read = next(one.number for one in rig.session.log if one.path == "/plan")
    assert told < read


def test_it_reports_lost_worker_processes_once_also_if_zookeeper_was_away(service: Service) -> None:
    service.publish(MINE)
    rig = FollowerRig(service.server)
    rig.run_loop()
    first, second = WorkerLoss(1, 0, "signal 9", 2), WorkerLoss(2, 1, "exit code 1", 0)
    rig.can_report_losses = False
    rig.workers.losses.append(first)
    rig.run_loop(2)
    assert (rig.reported_losses, rig.lanes) == ([], ["t-0", "t-1"])
    rig.workers.losses.append(second)
    rig.can_report_losses = True
    rig.run_loop(3)
    assert rig.reported_losses == [first, second]


def test_it_publishes_what_it_obeys_before_it_starts_anything(service: Service) -> None:
    rig, seen = FollowerRig(service.server), list[Holding | None]()
    rig.workers.before_start = lambda *_: seen.append(service.holdings()["one"])
    service.publish(MINE)
    rig.run_loop()
    service.publish(MINE, a_task("orders-2", ["t-9"], "one"))
    rig.run_loop()
    assert seen == [held(1), held(2)]


def test_the_holdings_of_others_are_read_behind_a_sync_that_follows_the_own_one(service: Service) -> None:
    one, two = FollowerRig(service.server, "one"), FollowerRig(service.server, "two")
    service.publish(MINE)
    one.run_loop()
    service.publish(MINE, THEIRS)
    two.run_loop()
    names = {f"/holdings/i-{0:010}": "of another", f"/holdings/i-{1:010}": "of its own"}
    steps = [names.get(each.path, each.name) for each in two.session.log]
    behind = steps[len(steps) - steps[::-1].index("of its own") :]
    assert behind.index("sync") < behind.index("of another")


def test_only_what_moves_stops_and_it_is_listed_until_it_has_drained(service: Service) -> None:
    service.publish(MINE)
    rig = FollowerRig(service.server)
    rig.run_loop()
    service.publish(a_task("orders-0", ["t-0"], "one"), a_task("orders-1", ["t-1"], "two"))
    rig.run_loop()
    assert service.holdings()["one"] == held(2, a_key("t-1"))
    assert rig.lanes == ["t-0", "t-1"]
    rig.workers.drain()
    rig.run_loop()
    assert service.holdings()["one"] == held(2)
    assert rig.lanes == ["t-0"]


def test_a_lane_goes_from_one_instance_to_the_other_without_two_owners(service: Service) -> None:
    one, two = FollowerRig(service.server, "one"), FollowerRig(service.server, "two")
    service.publish(MINE, THEIRS)
    one.run_loop()
    two.run_loop()
    one.run_loop()
    service.publish(a_task("orders-0", ["t-0"], "one"), a_task("orders-1", ["t-1", "t-2"], "two"))
    two.run_loop(2)
    assert two.lanes == ["t-2"]
    one.run_loop()
    two.run_loop(2)
    assert two.lanes == ["t-2"]
    assert [str(key.partition) for key in two.workers.expected] == ["t-1"], "announced once"
    one.workers.drain()
    one.run_loop()
    two.run_loop()
    assert (one.lanes, two.lanes) == (["t-0"], ["t-1", "t-2"])


def test_a_paused_datastream_stops_and_a_resumed_one_goes_on(service: Service) -> None:
    service.publish(MINE)
    rig = FollowerRig(service.server)
    rig.run_loop()
    stored = service.definitions.get(a_datastream().name)
    service.definitions.replace(stored, replace(stored.datastream, status=DatastreamStatus.PAUSED))
    rig.run_loop()
    rig.workers.drain()
    rig.run_loop()
    assert rig.lanes == []
    stored = service.definitions.get(a_datastream().name)
    service.definitions.replace(stored, replace(stored.datastream, status=DatastreamStatus.READY))
    rig.run_loop()
    assert rig.lanes == ["t-0", "t-1"]


def test_a_quota_is_divided_by_the_tasks_of_all_instances(service: Service) -> None:
    service.publish(MINE, THEIRS)
    rig = FollowerRig(service.server)
    rig.run_loop()
    assert rig.workers.quotas == {}
    stored = service.definitions.get(a_datastream().name)
    limited = a_datastream(metadata={"headrace.bytes-per-second": "100"})
    service.definitions.replace(stored, limited)
    rig.run_loop()
    assert rig.workers.quotas == {limited.group: 50.0}
    service.publish(MINE, THEIRS, a_task("orders-2", ["t-8"], "two"), a_task("orders-3", ["t-9"], None))
    rig.run_loop()
    assert rig.workers.quotas == {limited.group: 25.0}


def test_while_zookeeper_is_silent_lanes_go_on_until_the_lease_ends(service: Service) -> None:
    service.publish(MINE)
    rig = FollowerRig(service.server)
    rig.run_loop()
    rig.suspend()
    asked = len(rig.session.log)
    until = rig.workers.lease_until
    assert rig.clock.monotonic() < until < rig.clock.monotonic() + SESSION_TIMEOUT_SECONDS
    rig.clock.advance(5)
    rig.run_loop()
    assert rig.lanes == ["t-0", "t-1"]
    assert rig.workers.lease_until == until
    assert not is_well(rig)
    rig.clock.advance(3)
    rig.run_loop()
    assert rig.lanes == []
    assert rig.workers.abandoned == 1
    assert len(rig.session.log) == asked


def test_lanes_that_were_given_up_are_listed_until_it_knows_again_what_is_its_own(service: Service) -> None:
    service.publish(MINE, THEIRS)
    rig = FollowerRig(service.server)
    rig.run_loop()
    rig.suspend()
    rig.clock.advance(8)
    rig.run_loop()
    assert rig.lanes == [], "no lane runs"
    given_up = rig.follower.view.lanes
    assert sorted(str(key.partition) for key in given_up) == ["t-0", "t-1"]
    for state in given_up.values():
        assert (state.phase, state.worker, state.lag) == (LanePhase.WAITING, NOBODY, (None, None))
        assert "store" in state.reason
    rig.run_loop(3)
    assert rig.follower.view.lanes == given_up, "unchanged without ZooKeeper"
    service.publish(a_task("orders-0", ["t-0"], "one"), a_task("orders-1", ["t-1"], "two"))
    rig.resume()
    rig.run_loop(2)
    assert [str(key.partition) for key in rig.follower.view.lanes] == ["t-0"], "t-1 has another owner"
    assert {state.phase for state in rig.follower.view.lanes.values()} == {LanePhase.COPYING}


def test_back_in_time_with_the_same_session_nothing_is_restarted(service: Service) -> None:
    service.publish(MINE)
    rig = FollowerRig(service.server)
    rig.run_loop()
    rig.suspend()
    rig.run_loop()
    rig.clock.advance(5)
    rig.resume()
    rig.run_loop()
    assert rig.workers.abandoned == 0
    assert rig.lanes == ["t-0", "t-1"]
    assert is_well(rig)


def test_back_too_late_but_with_the_same_session_it_joins_anew(service: Service) -> None:
    service.publish(MINE)
    rig = FollowerRig(service.server)
    rig.run_loop()
    first = rig.follower.membership.me
    rig.suspend()
    rig.run_loop()
    rig.clock.advance(8)
    rig.run_loop()
    rig.resume()
    rig.run_loop(2)
    assert first is not None
    assert rig.follower.membership.me is not None
    assert rig.follower.membership.me.sequence > first.sequence
    assert [one.sequence for one in service.members.live()] == [rig.follower.membership.me.sequence]
    assert rig.lanes == ["t-0", "t-1"]
    assert is_well(rig)


def test_a_lost_session_ends_everything_at_once_and_a_new_one_begins_anew(service: Service) -> None:
    service.publish(MINE)
    rig, joined = FollowerRig(service.server), list[LiveInstance | None]()
    rig.on_joined = joined.append
    rig.run_loop()
    rig.lose()
    rig.run_loop()
    assert rig.lanes == []
    assert not is_well(rig)
    assert rig.follower.membership.me is None
    rig.renew()
    rig.run_loop(2)
    assert rig.lanes == ["t-0", "t-1"]
    assert [one and one.name for one in joined] == ["one", None, "one"]


def test_lanes_of_an_instance_that_was_lost_know_it(service: Service) -> None:
    rig = FollowerRig(service.server)
    gone = Departure(rig.clock.now_ms() - 3_000, frozenset({MINE.task}), is_lost=True)
    service.publish(MINE, departed={InstanceName("two"): gone})
    rig.run_loop()
    expected = LaneLoss(rig.clock.monotonic() - 3, InstanceName("two"))
    assert [one.loss for one in rig.follower.view.lanes.values()] == [expected] * 2


@pytest.mark.parametrize(("is_lost", "before_ms"), [(False, 3_000), (True, 61_000)])
def test_lanes_do_not_start_because_of_one_that_left_or_was_lost_long_ago(
    service: Service, is_lost: bool, before_ms: int
) -> None:
    rig = FollowerRig(service.server)
    gone = Departure(rig.clock.now_ms() - before_ms, frozenset({MINE.task}), is_lost)
    service.publish(MINE, departed={InstanceName("two"): gone})
    rig.run_loop()
    assert [one.loss for one in rig.follower.view.lanes.values()] == [None] * 2


def test_a_lost_session_is_that_of_this_instance(service: Service) -> None:
    service.publish(MINE)
    rig = FollowerRig(service.server)
    rig.run_loop()
    rig.lose()
    rig.run_loop()
    assert rig.workers.session_of == "one"


def test_a_session_that_is_found_lost_by_a_request_counts_as_lost(service: Service) -> None:
    service.publish(MINE)
    rig = FollowerRig(service.server)
    rig.run_loop()
    rig.session.expire()
    rig.run_loop()
    assert rig.lanes == []
    assert rig.follower.membership.me is None


def test_it_waits_for_another_of_its_name_and_says_so(service: Service) -> None:
    service.publish(MINE)
    other, rig = FollowerRig(service.server), FollowerRig(service.server)
    other.run_loop()
    with capture_logs() as log:
        rig.run_loop(3)
    assert rig.lanes == []
    sentence = rig.health.conditions()["follower"].sentence
    assert "named one" in sentence
    assert "process 1 on host, REST at 127.0.0.1:1" in sentence
    assert "mirror.instance_name" in sentence
    assert [line["reason"] for line in log if line["event"] == "not joined"] == [sentence]
    assert not is_well(rig)
    other.session.expire()
    rig.run_loop(2)
    assert rig.lanes == ["t-0", "t-1"]
    assert is_well(rig)


@pytest.mark.parametrize("lead", range(8))
def test_two_of_one_name_that_join_at_once_never_both_stay(service: Service, lead: int) -> None:
    service.publish(MINE)
    rigs = {"a": FollowerRig(service.server), "b": FollowerRig(service.server)}
    lockstep = Lockstep(["a"] * lead + ["b", "a"] * 40)
    for key, rig in rigs.items():
        rig.session.script = lockstep.gate(key)
    assert set(lockstep.run({key: rig.run_loop for key, rig in rigs.items()}).values()) == {None}
    for rig in rigs.values():
        rig.session.script = rig._note_contact
    assert sum(bool(rig.lanes) for rig in rigs.values()) <= 1
    for _ in range(3):
        for rig in rigs.values():
            rig.run_loop()
    assert sorted(len(rig.lanes) for rig in rigs.values()) == [0, 2]


@pytest.mark.parametrize("after_effect", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("number", range(30))
def test_whichever_request_fails_it_arrives(service: Service, number: int, after_effect: bool) -> None:
    service.publish(MINE, THEIRS)
    rig = FollowerRig(service.server)
    rig.script = lambda one: Fault(after_effect) if one.number == number else None
    rig.run_loop(2)
    service.publish(a_task("orders-0", ["t-1"], "one"), THEIRS)
    rig.run_loop(2)
    rig.workers.drain()
    rig.run_loop(3)
    assert rig.lanes == ["t-1"]
    assert service.holdings() == {"one": held(2)}
    assert is_well(rig)


def test_a_damaged_definition_stops_nothing_and_what_runs_of_it_goes_on(service: Service) -> None:
    service.publish(MINE)
    rig = FollowerRig(service.server)
    rig.run_loop()
    nodes = service.server.session()
    nodes.create("/datastreams/broken", b"{")
    path = f"/datastreams/{a_datastream().name}"
    whole = nodes.read(path)
    nodes.write(path, b"{", whole.version)
    rig.run_loop(3)
    assert rig.lanes == ["t-0", "t-1"]
    assert is_well(rig)
    nodes.write(
        path, node_codec.encode(to_document(a_datastream(status=DatastreamStatus.PAUSED))), whole.version + 1
    )
    rig.run_loop(3)
    rig.workers.drain()
    rig.run_loop()
    assert rig.lanes == []


def test_what_it_measures_is_shared_and_withdrawn_when_it_leaves(service: Service) -> None:
    service.publish(MINE)
    rig = FollowerRig(service.server)
    rig.run_loop()
    rig.workers.measure(a_key("t-0"), 123.0)
    rig.clock.advance(6)
    rig.contact.moment = rig.clock.monotonic()
    rig.run_loop()
    loads = MeasuredLoads(service.server.session())
    found = loads.loads(SOURCE, [TopicPartition("t", 0), TopicPartition("t", 1)]).loads
    assert {str(key): load.bytes_per_second for key, load in found.items()} == {"t-0": 123.0}
    rig.follower._leave()
    with pytest.raises(LoadUnavailable):
        loads.loads(SOURCE, [TopicPartition("t", 0)])
    assert rig.workers.stopped
    assert service.members.live() == ()


def test_leaving_without_zookeeper_still_stops_the_workers(service: Service) -> None:
    rig = FollowerRig(service.server)
    rig.run_loop()
    rig.session.disconnect()
    rig.follower._leave()
    assert rig.workers.stopped


def test_lanes_are_put_off_while_no_worker_runs(service: Service) -> None:
    service.publish(MINE)
    rig = FollowerRig(service.server)
    rig.workers.is_up = False
    rig.run_loop()
    assert rig.lanes == []
    rig.run_loop()
    assert rig.lanes == ["t-0", "t-1"]


def slow(rig: FollowerRig) -> None:
    """Delay every response of ZooKeeper by 10 ms."""

    def take_time(_: Operation) -> None:
        rig.clock.advance(0.01)

    rig.script = take_time


def test_definitions_that_change_all_the_time_are_read_now_and_then_and_none_is_missed(
    service: Service,
) -> None:
    service.publish(MINE)
    rig = FollowerRig(service.server)
    rig.run_loop()
    slow(rig)
    looks = 0
    for number in range(50):
        service.definitions.create(a_datastream(f"d-{number}"))
        asked = len(rig.session.log)
        rig.run_loop()
        looks += len(rig.session.log) > asked
        rig.clock.advance(0.01)
    assert 0 < looks <= 20
    rig.clock.advance(1.0)
    rig.run_loop()
    assert len(rig.follower.datastreams) == 51


def test_a_rest_delays_no_other_plan_and_none_that_starts_to_follow(service: Service) -> None:
    service.publish(MINE)
    rig = FollowerRig(service.server)
    slow(rig)
    rig.run_loop()
    service.publish(a_task("orders-0", ["t-0"], "one"))
    rig.run_loop()
    assert rig.follower.epoch == 2
    rig.lose()
    rig.renew()
    rig.run_loop()
    assert rig.follower.epoch == 2
    assert rig.lanes == ["t-0"]


def test_what_was_put_off_needs_no_other_occasion(service: Service) -> None:
    rig = FollowerRig(service.server)
    slow(rig)
    rig.run_loop()
    service.definitions.create(a_datastream("late"))
    rig.run_loop()
    assert len(rig.follower.datastreams) == 1
    rig.clock.advance(1.0)
    rig.run_loop()
    assert len(rig.follower.datastreams) == 2


def test_the_thread_starts_works_and_ends(service: Service) -> None:
    service.publish(MINE)
    rig = FollowerRig(service.server)
    rig.follower.start()
    wait_until(lambda: len(rig.follower.view.lanes) == 2)
    rig.follower.stop(1.0)
    rig.follower.stop(1.0)
    assert service.members.live() == ()
    assert not rig.health.has_died.is_set()


def test_a_worker_that_loses_the_lease_of_its_instance_again_turns_health_red(service: Service) -> None:
    service.publish(MINE)
    rig = FollowerRig(service.server)
    rig.run_loop(2)
    assert is_well(rig)
    rig.workers.starving = 1
    rig.run_loop()
    assert not is_well(rig)
    assert "lease" in rig.health.conditions()["follower"].sentence
    rig.workers.starving = 0
    rig.run_loop()
    assert is_well(rig)


def test_a_bug_in_a_round_turns_health_red_until_it_is_over_and_ends_nothing(service: Service) -> None:
    service.publish(MINE)
    rig = FollowerRig(service.server)

    def fail(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    rig.workers.before_start = fail
    rig.run_loop(3)
    assert "a bug" in rig.health.conditions()["follower"].sentence
    assert not rig.health.is_well
    rig.workers.before_start = lambda *_: None
    rig.run_loop(2)
    assert rig.health.is_well
    assert rig.lanes == ["t-0", "t-1"]


def test_a_bug_of_the_loop_itself_stops_the_copying(service: Service) -> None:
    rig = FollowerRig(service.server)

    def fail() -> None:
        raise ZeroDivisionError("a bug")

    rig.workers.restart_dead = fail  # type: ignore[method-assign]
    rig.follower.start()
    wait_until(rig.health.has_died.is_set)
    assert rig.workers.abandoned == 1
    assert "a bug" in rig.health.conditions()["follower"].sentence
    rig.follower.stop(1.0)


def test_lanes_that_stand_still_are_shown_here_and_told_to_the_leader(service: Service) -> None:
    service.publish(MINE)
    rig = FollowerRig(service.server)
    rig.run_loop(2)
    key = next(iter(rig.workers.lanes))
    state = rig.workers._states[key]
    rig.workers._states[key] = replace(state, phase=LanePhase.PAUSED, reason="too large")
    rig.clock.advance(6)
    rig.contact.moment = rig.clock.monotonic()
    rig.run_loop(2)
    told = TroubleStore(service.server.session())
    assert "too large" in told.of(znodes.TROUBLES)[key.group]
    assert "too large" in rig.health.conditions()[f"lanes of {key.group}"].sentence
    assert not rig.health.is_well
    rig.workers._states[key] = state
    rig.clock.advance(6)
    rig.contact.moment = rig.clock.monotonic()
    rig.run_loop(2)
    assert told.of(znodes.TROUBLES) == {}
    assert rig.health.is_well


def test_which_quota_holds_lanes_back_is_told_to_the_leader_while_it_does(service: Service) -> None:
    service.publish(MINE)
    rig = FollowerRig(service.server)
    rig.run_loop(2)
    key = next(iter(rig.workers.lanes))
    told = TroubleStore(service.server.session())
    for quota in ("the quota of its task holds it back", ""):
        state = rig.workers._states[key]
        rig.workers._states[key] = replace(state, phase=LanePhase.COPYING, slowed=quota)
        rig.clock.advance(6)
        rig.contact.moment = rig.clock.monotonic()
        rig.run_loop(2)
        assert quota in told.of(znodes.QUOTAS).get(key.group, "")
        assert bool(told.of(znodes.QUOTAS)) is bool(quota)
        assert rig.health.is_well


def test_what_was_told_of_lanes_that_were_given_up_is_not_left_behind(service: Service) -> None:
    """The session survives, so ZooKeeper does not remove the reports."""
    service.publish(MINE)
    rig = FollowerRig(service.server)
    rig.run_loop(2)
    first, second, *_ = rig.workers.lanes
    states = rig.workers._states
    states[first] = replace(states[first], phase=LanePhase.PAUSED, reason="too large")
    states[second] = replace(states[second], phase=LanePhase.COPYING, slowed="a quota")
    rig.clock.advance(6)
    rig.contact.moment = rig.clock.monotonic()
    rig.run_loop(2)
    told = TroubleStore(service.server.session())
    assert told.of(znodes.TROUBLES).keys() == {first.group}
    assert told.of(znodes.QUOTAS).keys() == {second.group}
    rig.suspend()
    rig.clock.advance(60)
    rig.run_loop()
    assert not rig.lanes
    rig.resume()
    rig.run_loop(3)
    assert rig.lanes
    assert told.of(znodes.TROUBLES) == {}
    assert told.of(znodes.QUOTAS) == {}


def test_a_datastream_that_ended_its_workers_is_forgotten_when_it_is_deleted(service: Service) -> None:
    service.publish(MINE)
    rig = FollowerRig(service.server)
    rig.run_loop(2)
    (group,) = {key.group for key in rig.workers.lanes}
    for _ in range(SUSPECT_DEATHS):
        rig.workers.quarantine.died([group], 0.1, rig.clock.monotonic())
    service.publish(MINE)
    rig.run_loop(2)
    assert "worker process" in rig.health.conditions()[f"lanes of {group}"].sentence
    DefinitionStore(service.server.session()).remove(a_datastream().name)
    service.publish()
    rig.run_loop(2)
    assert f"lanes of {group}" not in rig.health.conditions()
    assert rig.health.is_well


def test_lanes_that_wait_for_a_worker_process_are_listed_as_waiting(service: Service) -> None:
    service.publish(MINE)
    rig = FollowerRig(service.server)
    rig.run_loop(2)
    rig.workers._states.clear()
    rig.workers.is_up = rig.workers.may_start = False
    rig.run_loop(2)
    assert {str(key.partition): one.phase for key, one in rig.follower.view.lanes.items()} == {
        "t-0": LanePhase.WAITING,
        "t-1": LanePhase.WAITING,
    }
    assert {one.lag for one in rig.follower.view.lanes.values()} == {(None, None)}
    assert not rig.health.is_well
    rig.workers.may_start = True
    rig.run_loop(2)
    assert {one.phase for one in rig.follower.view.lanes.values()} == {LanePhase.COPYING}


def test_a_name_is_free_again_after_a_restart(service: Service) -> None:
    service.publish(MINE)
    rig = FollowerRig(service.server)
    rig.run_loop()
    rig.follower._leave()
    again = FollowerRig(service.server)
    again.run_loop()
    assert again.lanes == ["t-0", "t-1"]
    assert again.follower.membership.me is not None
    assert again.follower.membership.me.name == InstanceName("one")
