"""Test the supervisor with real worker processes that are killed, hang, exit and are restarted."""

from __future__ import annotations

import os
import queue
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import tests.fakes.tiny_worker as tiny_worker
from mirror.instance.workers.lane_table import LanePhase
from mirror.instance.workers.supervisor import Supervisor
from mirror.model.datastreams.lanes import (
    LaneEvent,
    LaneHeldBack,
    LanePaused,
    LaneResumed,
    LaneSpec,
    PauseCause,
)
from mirror.model.identifiers import Epoch, GroupName, TaskName
from mirror.model.metrics import SUMMED, Drops, WorkerLoss
from mirror.model.movement.clock_skew import ClockSkew
from mirror.model.movement.history import LanePosition
from mirror.worker.channel import WorkerGone, WorkerMessage
from mirror.worker.pool import PoolLimits, cpu_seconds
from mirror.worker.protocol import (
    ClusterClock,
    ExpectLanes,
    LaneNews,
    LaneRate,
    LaneRates,
    RecordsDropped,
    TaskSums,
    ThrottledTime,
)
from tests.builders import SOURCE, a_key, a_spec
from tests.fakes.clock import ManualClock
from tests.patience import PATIENCE_SECONDS, wait_until

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[4]


class SupervisedWorkers:
    """A supervisor whose workers have the given behaviours; the last one applies to all further workers."""

    def __init__(self, workers: int, *behaviours: str, silence_seconds: float = 1e9) -> None:
        self.clock = ManualClock()
        self.spawned: list[subprocess.Popen[bytes]] = []
        self._behaviours = list(behaviours or ["obedient"])
        self.inbox: queue.SimpleQueue[object] = queue.SimpleQueue()
        limits = PoolLimits(1.0, silence_seconds)
        self.supervisor = Supervisor(self._spawn, workers, self.inbox, self.clock, limits)

    def _spawn(self, number: int, channel: socket.socket) -> subprocess.Popen[bytes]:
        behaviour = self._behaviours.pop(0) if len(self._behaviours) > 1 else self._behaviours[0]
        if behaviour == "unborn":
            raise OSError("no memory")
        arguments = [sys.executable, tiny_worker.__file__, str(channel.fileno()), behaviour]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        process = subprocess.Popen(arguments, pass_fds=[channel.fileno()], env=environment)
        self.spawned.append(process)
        return process

    def until(self, condition: Callable[[], bool]) -> None:
        """Handle messages of the workers until the condition holds."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not condition():
            item = self.inbox.get(timeout=max(0.01, deadline - time.monotonic()))
            assert isinstance(item, WorkerMessage | WorkerGone)
            self.supervisor.handle(item)

    def take_in(self) -> None:
        """Handle the messages received so far."""
        while not self.inbox.empty():
            item = self.inbox.get()
            assert isinstance(item, WorkerMessage | WorkerGone)
            self.supervisor.handle(item)

    def phases(self) -> dict[str, LanePhase]:
        return {str(key.partition): state.phase for key, state in self.supervisor.lanes.items()}

    def start(self, *specs: LaneSpec) -> None:
        self.supervisor.start_lanes(specs, Epoch(1))

    def end(self) -> None:
        self.supervisor.kill_all()
        assert all(process.poll() is not None for process in self.spawned)


@pytest.fixture
def new_crew() -> Iterator[Callable[..., SupervisedWorkers]]:
    made: list[SupervisedWorkers] = []

    def make(workers: int, *behaviours: str, **limits: float) -> SupervisedWorkers:
        made.append(SupervisedWorkers(workers, *behaviours, **limits))
        made[-1].supervisor.start()
        return made[-1]

    yield make
    for crew in made:
        crew.end()


NewCrew = Callable[..., SupervisedWorkers]


def test_lanes_start_copy_and_stop(new_crew: NewCrew) -> None:
    crew = new_crew(1)
    crew.start(a_spec("t-0"), a_spec("t-1"))
    assert crew.phases() == {"t-0": LanePhase.STARTING, "t-1": LanePhase.STARTING}
    crew.until(lambda: set(crew.phases().values()) == {LanePhase.COPYING})
    crew.until(lambda: all(state.rate is not None for state in crew.supervisor.lanes.values()))
    crew.supervisor.stop_lanes([a_key("t-0")])
    assert crew.phases()["t-0"] is LanePhase.STOPPING
    crew.until(lambda: set(crew.phases()) == {"t-1"})


def test_a_task_lives_in_one_worker_and_tasks_are_spread(new_crew: NewCrew) -> None:
    crew = new_crew(2)
    crew.start(*(a_spec(f"t-{n}", task=f"orders-{n % 2}") for n in range(6)))
    crew.start(*(a_spec(f"u-{n}", task=f"orders-{n % 2}") for n in range(6)))
    homes: dict[str, set[int]] = {}
    for state in crew.supervisor.lanes.values():
        homes.setdefault(state.spec.task, set()).add(state.worker)
    assert sorted(homes.values()) == [{0}, {1}]


def test_tasks_that_were_expected_are_spread_too(new_crew: NewCrew) -> None:
    crew = new_crew(2)
    specs = [a_spec(f"t-{n}", task=f"orders-{n}") for n in range(4)]
    crew.supervisor.expect_lanes(specs)
    assert crew.phases() == {}
    crew.start(*specs)
    assert sorted(state.worker for state in crew.supervisor.lanes.values()) == [0, 0, 1, 1]


def test_a_quota_is_shared_by_the_tasks_that_a_worker_has(new_crew: NewCrew) -> None:
    crew = new_crew(2)
    crew.start(*(a_spec(f"t-{n}", task=f"orders-{n % 3}") for n in range(9)), a_spec("u-0", group="others"))

    def shares() -> dict[str, float]:
        lanes = crew.supervisor.lanes.values()
        return {state.spec.task: state.rate.bytes_per_second for state in lanes if state.rate is not None}

    crew.supervisor.share_quotas({GroupName("orders"): 100.0})
    expected = {"orders-0": 200.0, "orders-1": 100.0, "orders-2": 200.0, "others-0": 10.0}
    crew.until(lambda: shares() == expected)
    lanes = crew.supervisor.lanes
    crew.supervisor.stop_lanes([key for key, state in lanes.items() if state.spec.task == "orders-2"])
    crew.until(lambda: len(lanes) == 7)
    crew.supervisor.share_quotas({GroupName("orders"): 100.0})
    crew.until(lambda: shares()["orders-0"] == shares()["orders-1"] == 100.0)


def test_a_worker_that_is_killed_takes_only_its_own_lanes_with_it(new_crew: NewCrew) -> None:
    crew = new_crew(2)
    crew.start(a_spec("t-0", task="orders-0"), a_spec("t-1", task="orders-1"))
    crew.until(lambda: set(crew.phases().values()) == {LanePhase.COPYING})
    lost = next(str(key.partition) for key, state in crew.supervisor.lanes.items() if state.worker == 0)
    crew.spawned[0].kill()
    crew.until(lambda: lost not in crew.phases())
    assert list(crew.phases().values()) == [LanePhase.COPYING]
    assert crew.supervisor.health.running == 1
    (loss,) = crew.supervisor.losses
    assert loss == WorkerLoss(crew.clock.now_ms(), 0, "signal 9", 1)


def test_the_lanes_of_a_dead_worker_may_start_in_another_at_once(new_crew: NewCrew) -> None:
    crew = new_crew(2)
    crew.start(a_spec("t-0", task="orders-0"))
    crew.until(lambda: set(crew.phases().values()) == {LanePhase.COPYING})
    crew.spawned[0].kill()
    crew.until(lambda: not crew.phases())
    crew.start(a_spec("t-0", task="orders-0"))
    crew.until(lambda: set(crew.phases().values()) == {LanePhase.COPYING})
    assert {state.worker for state in crew.supervisor.lanes.values()} == {1}


def test_a_worker_is_started_again_after_a_delay_that_doubles(new_crew: NewCrew) -> None:
    crew = new_crew(1)
    for round_number, delay in enumerate((1, 2, 4, 8, 16, 30, 30), start=1):
        crew.spawned[-1].kill()
        crew.until(lambda: crew.supervisor.health.running == 0)
        assert crew.phases() == {}
        crew.clock.advance(delay - 0.01)
        crew.supervisor.restart_dead()
        assert len(crew.spawned) == round_number
        crew.clock.advance(0.02)
        crew.supervisor.restart_dead()
        assert len(crew.spawned) == round_number + 1


def test_a_worker_that_has_reported_is_forgiven(new_crew: NewCrew) -> None:
    crew = new_crew(1)
    for _ in range(2):
        crew.spawned[-1].kill()
        crew.until(lambda: crew.supervisor.health.running == 0)
        crew.clock.advance(10)
        crew.supervisor.restart_dead()
    crew.start(a_spec("t-0"))
    crew.until(lambda: any(state.rate for state in crew.supervisor.lanes.values()))
    crew.spawned[-1].kill()
    crew.until(lambda: crew.supervisor.health.running == 0)
    crew.clock.advance(1.01)
    crew.supervisor.restart_dead()
    assert crew.supervisor.health.running == 1


def test_lanes_wait_while_no_worker_runs(new_crew: NewCrew) -> None:
    crew = new_crew(1)
    crew.spawned[0].kill()
    crew.until(lambda: crew.supervisor.health.running == 0)
    crew.start(a_spec("t-0"))
    assert crew.phases() == {}


def test_a_worker_that_cannot_be_started_is_tried_again(new_crew: NewCrew) -> None:
    crew = new_crew(2, "unborn", "obedient")
    assert crew.supervisor.health.running == 1
    crew.clock.advance(1.01)
    crew.supervisor.restart_dead()
    assert crew.supervisor.health.running == 2


def test_abandoning_kills_at_once_and_what_the_dead_had_said_counts_no_more(new_crew: NewCrew) -> None:
    crew = new_crew(2)
    crew.start(a_spec("t-0", task="a-0"), a_spec("t-1", task="a-1"))
    crew.supervisor.kill_all()
    assert crew.phases() == {}
    assert all(process.poll() is not None for process in crew.spawned)
    gone = 0
    while gone < 2:
        item = crew.inbox.get(timeout=PATIENCE_SECONDS)
        assert isinstance(item, WorkerMessage | WorkerGone)
        gone += isinstance(item, WorkerGone)
        crew.supervisor.handle(item)
    assert crew.phases() == {}
    crew.supervisor.restart_dead()
    assert crew.supervisor.health.running == 2


def test_a_worker_that_dies_just_before_it_is_abandoned_is_mourned_once(new_crew: NewCrew) -> None:
    crew = new_crew(1)
    crew.spawned[0].kill()
    news = crew.inbox.get(timeout=PATIENCE_SECONDS)
    assert isinstance(news, WorkerGone)
    crew.supervisor.kill_all()
    crew.supervisor.handle(news)
    crew.supervisor.restart_dead()
    assert crew.supervisor.health.running == 1


def test_stopping_lets_workers_end_by_themselves(new_crew: NewCrew) -> None:
    crew = new_crew(2)
    crew.supervisor.stop(PATIENCE_SECONDS)
    crew.supervisor.stop(PATIENCE_SECONDS)
    assert [process.poll() for process in crew.spawned] == [0, 0]
    crew.clock.advance(100)
    crew.supervisor.restart_dead()
    assert len(crew.spawned) == 2


@pytest.mark.parametrize("behaviour", ["deaf", "stubborn"])
def test_stopping_kills_what_does_not_end(new_crew: NewCrew, behaviour: str) -> None:
    crew = new_crew(1, behaviour)
    crew.supervisor.stop(-1.5)
    assert crew.spawned[0].poll() == -signal.SIGKILL


@pytest.mark.parametrize("behaviour", ["departing", "babbling"])
def test_a_worker_that_cannot_be_talked_to_is_ended_and_replaced(new_crew: NewCrew, behaviour: str) -> None:
    crew = new_crew(1, behaviour, "obedient")
    crew.until(lambda: crew.supervisor.health.running == 0)
    assert crew.spawned[0].poll() == -signal.SIGKILL
    crew.clock.advance(1.01)
    crew.supervisor.restart_dead()
    crew.start(a_spec("t-0"))
    crew.until(lambda: set(crew.phases().values()) == {LanePhase.COPYING})


def test_a_worker_that_does_not_listen_holds_nobody_up_and_is_replaced(new_crew: NewCrew) -> None:
    crew = new_crew(2, "deaf", "obedient")
    deaf, other = crew.supervisor._pool.workers
    crew.supervisor._pool.send(deaf, ExpectLanes(tuple(a_spec(f"t-{number}") for number in range(5_000))))
    crew.until(lambda: other.slot.data_plane != "")  # until then it does not read either
    for _ in range(5_000):
        crew.supervisor.extend_lease(1.0)

    def has_response() -> bool:
        crew.supervisor.restart_dead()
        return other.has_taken_all

    wait_until(has_response, interval_seconds=0.01)
    assert crew.supervisor.health.running == 2
    for _ in range(30):
        crew.clock.advance(2)
        crew.supervisor.restart_dead()
    crew.until(lambda: crew.supervisor.health.running == 1)
    assert crew.spawned[0].poll() == -signal.SIGKILL
    assert crew.spawned[1].poll() is None


def test_a_long_message_reaches_a_worker_that_is_slow_to_take_it(new_crew: NewCrew) -> None:
    crew = new_crew(1)
    crew.start(*(a_spec(f"{'t' * 200}-{number}") for number in range(5_000)))

    def all_copy() -> bool:
        crew.supervisor.restart_dead()
        while not crew.inbox.empty():
            item = crew.inbox.get()
            assert isinstance(item, WorkerMessage | WorkerGone)
            crew.supervisor.handle(item)
        return set(crew.phases().values()) == {LanePhase.COPYING}

    wait_until(all_copy, interval_seconds=0.01)


def test_a_lane_that_paused_itself_says_why_until_it_goes_on(new_crew: NewCrew) -> None:
    crew = new_crew(1)
    crew.start(a_spec("t-0"))
    crew.until(lambda: set(crew.phases().values()) == {LanePhase.COPYING})
    key = a_key("t-0")
    crew.supervisor.handle(WorkerMessage(0, 1, LaneNews((LanePaused(key, "too large"),))))
    assert crew.supervisor.lanes[key].phase is LanePhase.PAUSED
    assert crew.supervisor.lanes[key].reason == "too large"
    crew.supervisor.handle(WorkerMessage(0, 1, LaneNews((LaneResumed(key),))))
    assert crew.supervisor.lanes[key].phase is LanePhase.COPYING
    assert crew.supervisor.lanes[key].reason == ""
    crew.supervisor.stop_lanes([key])
    crew.supervisor.handle(WorkerMessage(0, 1, LaneNews((LanePaused(key, "late"),))))
    assert crew.supervisor.lanes[key].phase is LanePhase.STOPPING


def test_a_quota_that_holds_a_lane_back_is_kept_for_the_time_in_which_it_copies(new_crew: NewCrew) -> None:
    crew = new_crew(1)
    crew.start(a_spec("t-0"))
    crew.until(lambda: set(crew.phases().values()) == {LanePhase.COPYING})
    key = a_key("t-0")

    def hear(*events: LaneEvent) -> tuple[str, str]:
        crew.supervisor.handle(WorkerMessage(0, 1, LaneNews(events)))
        state = crew.supervisor.lanes[key]
        return state.reason, state.held_back

    assert hear(LaneHeldBack(key, "a quota")) == ("", "a quota")
    assert hear(LanePaused(key, "too large")) == ("too large", "")
    assert hear(LaneResumed(key)) == ("", "a quota")
    assert hear(LaneHeldBack(key, "")) == ("", "")


def test_seconds_in_which_brokers_throttle_add_up_over_workers(new_crew: NewCrew) -> None:
    crew = new_crew(2)
    crew.until(lambda: crew.supervisor.health.is_ready)
    for worker, seconds in ((0, 1.5), (1, 2.0), (0, 0.5)):
        crew.supervisor.handle(WorkerMessage(worker, 1, LaneRates((), (), (ThrottledTime(SOURCE, seconds),))))
    assert crew.supervisor.measurements.throttled_seconds == {SOURCE: 4.0}


def test_counts_end_with_their_datastream(new_crew: NewCrew) -> None:
    crew = new_crew(1)
    crew.until(lambda: crew.supervisor.health.is_ready)

    def count() -> None:
        groups = (GroupName("orders"), GroupName("gone"))
        sums = tuple(TaskSums(one, TaskName(f"{one}-0"), (1.0,) * len(SUMMED), ()) for one in groups)
        crew.supervisor.handle(WorkerMessage(0, 1, LaneRates((), sums)))

    count()
    assert crew.supervisor.measurements.task_sums.keys() == {"orders-0", "gone-0"}
    crew.supervisor.forget({GroupName("gone")})
    count()
    assert crew.supervisor.measurements.task_sums.keys() == {"orders-0"}
    assert set(crew.supervisor.measurements.task_sums[TaskName("orders-0")].by_name().values()) == {2.0}
    crew.start(a_spec("t-0", "gone"))  # a new datastream of the same name
    count()
    assert set(crew.supervisor.measurements.task_sums[TaskName("gone-0")].by_name().values()) == {1.0}


def test_what_time_it_is_at_a_cluster_is_what_a_worker_said_last(new_crew: NewCrew) -> None:
    crew = new_crew(2)
    crew.until(lambda: crew.supervisor.health.is_ready)
    assert crew.supervisor.measurements.clock_skews == {}
    for worker, ahead_ms in ((0, 70.0), (1, 80.0)):
        clocks = (ClusterClock(SOURCE, ClockSkew(ahead_ms, 2.0)),)
        crew.supervisor.handle(WorkerMessage(worker, 1, LaneRates((), clocks=clocks)))
    assert crew.supervisor.measurements.clock_skews == {SOURCE: ClockSkew(80.0, 2.0)}


def test_lanes_of_a_worker_that_measures_nothing_any_more_are_not_known_to_be_in_time(
    new_crew: NewCrew,
) -> None:
    crew = new_crew(1)
    crew.until(lambda: crew.supervisor.health.is_ready)
    crew.start(a_spec("t-0"))
    key = a_key("t-0")
    crew.until(lambda: crew.supervisor.lanes[key].phase is LanePhase.COPYING)
    place = LanePosition(10, 30, 30, is_watched=True)
    rate, now = LaneRate(key, SOURCE, 1.0, 1.0, 20, 5, (), place), crew.clock.monotonic()
    crew.supervisor.handle(WorkerMessage(0, 1, LaneRates((rate,), at=now)))
    crew.clock.advance(30)
    crew.supervisor.restart_dead()
    assert crew.supervisor.lanes[key].track.is_in_time(crew.clock.monotonic(), 30.0)
    crew.clock.advance(1)
    crew.supervisor.restart_dead()
    assert not crew.supervisor.lanes[key].track.is_in_time(crew.clock.monotonic(), 30.0)


def test_records_that_workers_could_not_deliver_count_beyond_their_ends(new_crew: NewCrew) -> None:
    crew = new_crew(2)
    crew.until(lambda: crew.supervisor.health.is_ready)
    crew.supervisor.handle(WorkerMessage(0, 1, RecordsDropped(Drops(3, "queue full"))))
    crew.supervisor.handle(WorkerMessage(1, 1, RecordsDropped(Drops(4))))
    assert crew.supervisor.measurements.drops == Drops(7, "queue full")
    crew.supervisor.handle(WorkerMessage(1, 1, RecordsDropped(Drops(5, "timed out"))))
    crew.spawned[0].kill()
    crew.until(lambda: crew.supervisor.health.running == 1)
    assert crew.supervisor.measurements.drops == Drops(8, "timed out")


def test_workers_are_ready_when_all_that_are_there_have_said_so(new_crew: NewCrew) -> None:
    crew = new_crew(2)
    crew.until(lambda: crew.supervisor.health.is_ready)
    crew.spawned[0].kill()
    crew.until(lambda: crew.supervisor.health.running == 1)
    assert crew.supervisor.health.is_ready
    assert crew.supervisor.health.data_planes == {"interpreted"}
    crew.spawned[1].kill()
    crew.until(lambda: crew.supervisor.health.running == 0)
    assert not crew.supervisor.health.is_ready
    assert crew.supervisor.health.data_planes == frozenset(), "only running workers are reported"


def test_a_worker_that_says_nothing_is_not_ready(new_crew: NewCrew) -> None:
    crew = new_crew(1, "deaf")
    crew.until(lambda: crew.supervisor.health.running == 1)
    assert not crew.supervisor.health.is_ready


def test_a_datastream_that_ends_its_worker_is_found_and_set_aside_alone(new_crew: NewCrew) -> None:
    crew = new_crew(1, "poisoned")
    specs = [a_spec("t-0", group=group) for group in ("bad", "a", "b", "c", "d")]

    def copying() -> set[str]:
        return {key.group for key, one in crew.supervisor.lanes.items() if one.phase is LanePhase.COPYING}

    def run_once() -> None:
        crew.take_in()
        crew.supervisor.restart_dead()
        crew.start(*(spec for spec in specs if spec.key not in crew.supervisor.lanes))
        crew.clock.advance(0.5)

    def is_found() -> bool:
        run_once()
        return "died" in crew.supervisor.quarantine.ailing.get(GroupName("bad"), "") and len(copying()) == 4

    wait_until(is_found, interval_seconds=0.01)
    assert copying() == {"a", "b", "c", "d"}
    state = crew.supervisor.lanes[a_key("t-0", "bad")]
    assert state.phase is LanePhase.PAUSED
    assert re.search(r"\b5 times\b.*\bexit code 3\b", state.reason)
    crew.supervisor.stop_lanes([state.spec.key])
    assert state.spec.key not in crew.supervisor.lanes


def test_lanes_wait_while_no_worker_process_is_there_for_them(new_crew: NewCrew) -> None:
    crew = new_crew(1)
    spec = a_spec("t-0")
    crew.start(spec)
    crew.until(lambda: set(crew.phases().values()) == {LanePhase.COPYING})
    assert crew.supervisor.waiting([spec]) == {}
    crew.spawned[0].kill()
    crew.until(lambda: crew.supervisor.health.running == 0)
    state = crew.supervisor.waiting([spec])[spec.key]
    assert (state.phase, state.worker, state.lag) == (LanePhase.WAITING, -1, (None, None))
    assert state.cause is PauseCause.NO_WORKER
    assert "worker process" in state.reason
    assert "in 1 s" in state.reason
    crew.clock.advance(1.0)
    crew.supervisor.restart_dead()
    assert crew.supervisor.waiting([spec]) == {}


def test_nobody_is_suspected_of_the_end_of_a_lease(new_crew: NewCrew) -> None:
    crew = new_crew(1, "leased")
    for _ in range(4):
        crew.start(a_spec("t-0", group="a"), a_spec("t-0", group="b"))
        crew.until(lambda: crew.supervisor.health.running == 0)
        crew.clock.advance(40)
        crew.supervisor.restart_dead()
    assert crew.supervisor.quarantine.ailing == {}
    assert not crew.supervisor.losses


def test_only_processes_that_the_system_cannot_start_are_a_problem_of_their_start(new_crew: NewCrew) -> None:
    crew = new_crew(1, "crashing", "crashing", "unborn", "obedient")
    assert crew.supervisor.health.start_problem
    crew.until(lambda: crew.supervisor.health.is_ready)
    for _ in range(2):
        assert not crew.supervisor.health.start_problem
        crew.start(a_spec("t-0"))
        crew.until(lambda: crew.supervisor.health.running == 0)
        assert not crew.supervisor.health.start_problem, "it crashed while copying"
        crew.clock.advance(40)
        crew.supervisor.restart_dead()
    assert crew.supervisor.health.start_problem
    crew.clock.advance(40)
    crew.supervisor.restart_dead()
    assert not crew.supervisor.health.start_problem


def test_workers_that_lose_a_lease_which_the_instance_has_are_counted_and_their_datastreams_suspected(
    new_crew: NewCrew,
) -> None:
    crew = new_crew(1, "leased", "leased", "leased", "obedient")
    for lost in range(3):
        assert crew.supervisor.health.starving == (lost >= 2)
        crew.supervisor.extend_lease(crew.clock.monotonic() + 10)
        crew.start(a_spec("t-0", group="a"))
        crew.until(lambda: crew.supervisor.health.running == 0)
        crew.supervisor.restart_dead()
    assert crew.supervisor.health.starving == 1
    assert set(crew.supervisor.quarantine.ailing) == {"a"}
    crew.until(lambda: crew.supervisor.health.is_ready)
    crew.clock.advance(61)
    assert crew.supervisor.health.starving == 0


def test_a_worker_whose_lease_was_over_is_replaced_at_once_each_time(new_crew: NewCrew) -> None:
    crew = new_crew(1, "leased")
    for spawned in range(1, 6):
        assert len(crew.spawned) == spawned
        crew.start(a_spec("t-0"))
        crew.until(lambda: crew.supervisor.health.running == 0)
        crew.supervisor.restart_dead()
    assert crew.supervisor.health.running == 1


def test_what_is_cleared_returns_to_the_workers_and_the_cells_end(new_crew: NewCrew) -> None:
    crew = new_crew(1, "obedient")
    specs = [a_spec("t-0", group=group) for group in ("a", "b", "c")]
    for _ in range(2):
        crew.start(*specs)
        crew.until(lambda: len(crew.phases()) == 1 or len(crew.supervisor.lanes) == 3)
        crew.spawned[-1].kill()
        crew.until(lambda: crew.supervisor.health.running == 0)
        crew.clock.advance(3)
        crew.supervisor.restart_dead()
    assert set(crew.supervisor.quarantine.ailing) == {"a", "b", "c"}

    def is_well() -> bool:
        crew.take_in()
        crew.clock.advance(1.0)
        crew.supervisor.restart_dead()
        crew.start(*(spec for spec in specs if spec.key not in crew.supervisor.lanes))
        at_home = [
            one.worker == 0 and one.phase is LanePhase.COPYING for one in crew.supervisor.lanes.values()
        ]
        return not crew.supervisor.quarantine.ailing and at_home == [True] * 3

    wait_until(is_well, interval_seconds=0.01)
    wait_until(lambda: sum(one.poll() is None for one in crew.spawned) == 1)


def test_a_lane_that_cannot_be_sent_is_set_aside_alone(new_crew: NewCrew) -> None:
    crew = new_crew(1)
    bad = replace(a_spec("t-0", group="bad"), destination_topic=object())  # type: ignore[arg-type]
    crew.start(bad, a_spec("t-1"))
    crew.until(lambda: crew.phases()["t-1"] is LanePhase.COPYING)
    state = crew.supervisor.lanes[bad.key]
    assert state.phase is LanePhase.PAUSED
    assert "unexpected TypeError" in state.reason
    crew.supervisor.restart_dead()
    crew.supervisor.stop_lanes([bad.key])
    assert bad.key not in crew.supervisor.lanes


def look(crew: SupervisedWorkers, seconds: float, step: float = 1.0) -> None:
    """Advance the time in steps and check the workers after each."""
    for _ in range(int(seconds / step)):
        crew.clock.advance(step)
        crew.supervisor.restart_dead()


def frozen_crew(new_crew: NewCrew, workers: int = 1) -> SupervisedWorkers:
    """Return a crew whose first worker is frozen while it copies a lane."""
    crew = new_crew(workers, "obedient", silence_seconds=20.0)
    crew.until(lambda: crew.supervisor.health.is_ready)
    crew.start(a_spec("t-0"))
    crew.until(lambda: any(state.rate for state in crew.supervisor.lanes.values()))
    os.kill(crew.spawned[0].pid, signal.SIGSTOP)
    return crew


def test_a_worker_that_stands_still_is_said_and_then_killed(new_crew: NewCrew) -> None:
    crew = frozen_crew(new_crew)
    look(crew, 9)
    assert crew.supervisor.health.silent == 0
    look(crew, 2)
    assert crew.supervisor.health.silent == 1
    state = crew.supervisor.lanes[a_key("t-0")]
    assert state.phase is LanePhase.PAUSED
    assert "worker process" in state.reason
    assert state.rate is None, "its lag is unknown"
    look(crew, 11)
    crew.until(lambda: not crew.supervisor.lanes)
    assert crew.spawned[0].poll() == -signal.SIGKILL
    look(crew, 2)
    assert crew.supervisor.health.running == 1
    assert crew.supervisor.quarantine.ailing == {}


def test_new_tasks_go_to_workers_that_answer(new_crew: NewCrew) -> None:
    crew = frozen_crew(new_crew, workers=2)
    os.kill(crew.spawned[1].pid, signal.SIGSTOP)
    os.kill(crew.spawned[0].pid, signal.SIGCONT)
    look(crew, 11)
    beats = crew.supervisor._pool.workers[0].pulse.beats
    crew.supervisor.share_quotas({GroupName("orders"): 100.0})
    wait_until(lambda: crew.supervisor._pool.workers[0].pulse.beats > beats)
    look(crew, 1)
    assert crew.supervisor.health.silent == 1
    crew.start(a_spec("u-0", task="orders-1"), a_spec("u-1", task="orders-2"))
    assert {state.worker for state in crew.supervisor.lanes.values()} == {0}


def test_one_that_speaks_again_is_what_it_was(new_crew: NewCrew) -> None:
    crew = frozen_crew(new_crew)
    look(crew, 12)
    assert set(crew.phases().values()) == {LanePhase.PAUSED}
    os.kill(crew.spawned[0].pid, signal.SIGCONT)
    beats = crew.supervisor._pool.workers[0].pulse.beats
    crew.supervisor.share_quotas({GroupName("orders"): 100.0})
    wait_until(lambda: crew.supervisor._pool.workers[0].pulse.beats > beats)
    look(crew, 1)
    assert set(crew.phases().values()) == {LanePhase.COPYING}
    assert crew.supervisor.health.silent == 0


def test_a_control_process_that_was_frozen_itself_kills_nobody(new_crew: NewCrew) -> None:
    crew = frozen_crew(new_crew)
    for _ in range(4):
        crew.clock.advance(3_600)  # the control process was frozen
        crew.supervisor.restart_dead()
    assert set(crew.phases().values()) == {LanePhase.COPYING}
    assert crew.spawned[0].poll() is None


def test_a_silent_worker_that_computes_is_left_to_its_watchdog(new_crew: NewCrew) -> None:
    crew = new_crew(1, "endless", silence_seconds=20.0)
    crew.until(lambda: crew.supervisor.health.is_ready)
    crew.start(a_spec("t-0"))
    process = crew.spawned[0]
    for _ in range(30):
        before = cpu_seconds(process.pid)
        assert before is not None
        wait_until(lambda used=before: (cpu_seconds(process.pid) or 0) > used + 0.06)  # type: ignore[misc]
        look(crew, 1)
    assert process.poll() is None
    assert set(crew.phases().values()) == {LanePhase.PAUSED}
    look(crew, 31)
    crew.until(lambda: not crew.supervisor.lanes)
    assert process.poll() == -signal.SIGKILL


def test_groups_whose_workers_keep_falling_silent_are_suspects(new_crew: NewCrew) -> None:
    crew = new_crew(1, "obedient", silence_seconds=20.0)
    for _ in range(3):
        assert crew.supervisor.quarantine.ailing == {}
        crew.until(lambda: crew.supervisor.health.is_ready)
        crew.start(a_spec("t-0"))
        crew.until(lambda: any(state.rate for state in crew.supervisor.lanes.values()))
        os.kill(crew.spawned[-1].pid, signal.SIGSTOP)
        look(crew, 22)
        crew.until(lambda: not crew.supervisor.lanes)
        look(crew, 5)
    assert set(crew.supervisor.quarantine.ailing) == {"orders"}
