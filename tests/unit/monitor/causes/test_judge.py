"""Test the causes derived from the evidence of late datastreams, with a table of cases."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import pytest

from mirror.model.datastreams.lanes import QuotaHold, QuotaOwner, WindowLimit
from monitor.causes.diagnosis import Cause
from monitor.causes.evidence import BacklogOrigin, Evidence, LaneEvidence, Phases
from monitor.causes.judge import diagnose
from monitor.movement.states import MovementState as S

C, Q, From = Cause, QuotaOwner, BacklogOrigin
LIMIT_MS = 1_000
IN_TIME = Phases(2, 1, 2, 5)
PRODUCING = Phases(20, 10, 20, 4_950)
FETCHING = Phases(20, 4_900, 20, 60)
BOTH = Phases(100, 1_900, 200, 1_800)
QUEUEING = Phases(100, 100, 4_700, 100)
WAITING = Phases(4_900, 20, 20, 60)
MIXED = Phases(900, 300, 2_400, 400)
WINDOW = WindowLimit(3, 125_000, 100.0, 24, 64)
SLOW: dict[str, object] = {"phases": PRODUCING, "produce_unanswered": 6.0}


def lane(number: int, **more: object) -> LaneEvidence:
    """Return a lane that copies in time."""
    known: dict[str, object] = {
        "instance": "one",
        "task": "orders-0",
        "worker": 0,
        "state": S.OK,
        "lag_records": 10,
        "lag_ms": 40,
        "bytes_per_second": 1_000_000.0,
        "batches_per_second": 20.0,
        "phases": IN_TIME,
        "cpu": 0.05,
        "worker_cpu": 0.3,
    }
    return LaneEvidence(f"t-{number}", **{**known, **more})  # type: ignore[arg-type]


def late(number: int, **more: object) -> LaneEvidence:
    """Return a lane whose oldest waiting record is older than the objective."""
    return lane(number, **{"lag_ms": 5_000, "lag_records": 9_000, "state": S.WARN, **more})


def held(number: int, owner: QuotaOwner, share: float = 0.6, **more: object) -> LaneEvidence:
    broker = 3 if owner in (Q.SOURCE, Q.DESTINATION) else None
    return late(number, **{"hold": QuotaHold(owner, share, broker), "state": S.THROTTLED, **more})


def silent(number: int, state: S, reason: str = "why", **more: object) -> LaneEvidence:
    """Return a lane that does not copy."""
    unknown = {"bytes_per_second": None, "batches_per_second": 0.0, "phases": None, "cpu": None}
    return late(number, state=state, reason=reason, **{**unknown, **more})


def busy(number: int, **more: object) -> LaneEvidence:
    return late(number, **{"worker_cpu": 0.97, "cpu": 0.3, **more})


def stuck(number: int, **more: object) -> LaneEvidence:
    """Return a lane without acknowledgements in the last interval."""
    return late(number, **{"phases": None, "batches_per_second": 0.0, "bytes_per_second": 0.0, **more})


def hot(number: int, **more: object) -> LaneEvidence:
    return busy(number, **{"bytes_per_second": 9e6, "cpu": 0.7, **more})


def calm(number: int, **more: object) -> LaneEvidence:
    return lane(number, **{"lag_ms": 0, "lag_records": 0, **more})


def catching_up(number: int, eta: float | None = 40.0, **more: object) -> LaneEvidence:
    return late(number, **{"state": S.CATCHING_UP, "eta_seconds": eta, "phases": WAITING, **more})


@dataclass(frozen=True)
class Case:
    """Evidence and its expected cause. `second`: second cause reported; `helps`: placement can help."""

    name: str
    lanes: tuple[LaneEvidence, ...]
    cause: Cause
    second: Cause | None = None
    helps: bool = False
    silent: tuple[str, ...] = ()


HOLDS_TASK = (held(0, Q.TASK), held(1, Q.TASK), held(2, Q.TASK))
CASES = [
    # hot partition
    Case(
        "one of three carries most, the worker is busy",
        (hot(0), busy(1), busy(2)),
        C.HOT_PARTITION,
        None,
        True,
    ),
    Case("only the hot one is late", (hot(0), lane(1, worker_cpu=0.97)), C.HOT_PARTITION, None, True),
    Case(
        "the task's quota holds a hot partition back",
        (held(0, Q.TASK, bytes_per_second=8e6), held(1, Q.TASK)),
        C.HOT_PARTITION,
        None,
        True,
    ),
    Case("a hot partition alone in its task has nowhere to go", (hot(0),), C.HOT_PARTITION),
    Case("alone, by the task's quota", (held(0, Q.TASK), lane(1, task="orders-1")), C.HOT_PARTITION),
    Case("hot, but the worker has time", (hot(0, worker_cpu=0.6), late(1), late(2)), C.UNKNOWN),
    Case(
        "hot in another task than the late one",
        (hot(0, task="orders-1", lag_ms=5, state=S.OK), late(1)),
        C.UNKNOWN,
    ),
    # overloaded task
    Case("the task's quota holds all back evenly", HOLDS_TASK, C.OVERLOADED_TASK, None, True),
    Case("busy with one task evenly", tuple(busy(n) for n in range(3)), C.OVERLOADED_TASK, None, True),
    Case("just busy", tuple(busy(n, worker_cpu=0.9) for n in range(3)), C.OVERLOADED_TASK, None, True),
    Case("just not busy", tuple(busy(n, worker_cpu=0.89) for n in range(3)), C.UNKNOWN),
    Case("half of the bytes is no majority", (busy(0), busy(1)), C.OVERLOADED_TASK, None, True),
    Case(
        "a task at its quota with unknown rates",
        (held(0, Q.TASK, bytes_per_second=None), held(1, Q.TASK, bytes_per_second=None)),
        C.OVERLOADED_TASK,
        None,
        True,
    ),
    Case(
        "one of two tasks is at its quota",
        (*HOLDS_TASK, lane(3, task="orders-1"), lane(4, task="orders-1")),
        C.OVERLOADED_TASK,
        None,
        True,
    ),
    Case(
        "late by movement only in part",
        (held(0, Q.TASK, state=S.OK), held(1, Q.TASK, state=S.OK), lane(2)),
        C.OVERLOADED_TASK,
        None,
        True,
    ),
    # overloaded instance
    Case(
        "several tasks keep a worker busy",
        tuple(busy(n, task=f"orders-{n}") for n in range(3)),
        C.OVERLOADED_INSTANCE,
        None,
        True,
    ),
    Case(
        "another datastream keeps it busy",
        (busy(0, cpu=0.05), busy(1, cpu=0.05)),
        C.OVERLOADED_INSTANCE,
        None,
        True,
    ),
    Case(
        "it is alone there, and others keep it busy", (busy(0, cpu=0.05),), C.OVERLOADED_INSTANCE, None, True
    ),
    Case(
        "what lanes take is not known",
        (busy(0, cpu=None), busy(1, cpu=None)),
        C.OVERLOADED_INSTANCE,
        None,
        True,
    ),
    Case(
        "others on the machine take the cores",
        tuple(busy(n, worker_cpu=0.5, worker_waited=0.45) for n in range(3)),
        C.OVERLOADED_INSTANCE,
        None,
        True,
    ),
    Case(
        "it waits for a core now and then, and has time",
        (busy(0, worker_cpu=0.3, worker_waited=0.4),),
        C.UNKNOWN,
    ),
    Case(
        "busy by itself, and hardly waits",
        tuple(busy(n, worker_cpu=0.85, worker_waited=0.1) for n in range(3)),
        C.OVERLOADED_TASK,
        None,
        True,
    ),
    Case("busy, and nobody is late for it", (lane(0, worker_cpu=0.99), held(1, Q.SOURCE)), C.BROKER_QUOTA),
    # quota
    Case(
        "brokers of the destination throttle",
        (held(0, Q.DESTINATION), held(1, Q.DESTINATION)),
        C.BROKER_QUOTA,
    ),
    Case("brokers of the source throttle", (held(0, Q.SOURCE), lane(1)), C.BROKER_QUOTA),
    Case("the datastream's own quota", (held(0, Q.DATASTREAM), held(1, Q.DATASTREAM)), C.OUR_QUOTA),
    Case("partitions in danger go first", (held(0, Q.OTHERS), held(1, Q.OTHERS)), C.OUR_QUOTA),
    Case("throttled, and it shows in produce", (held(0, Q.DESTINATION, phases=PRODUCING),), C.BROKER_QUOTA),
    Case("throttled, and the worker is busy", (held(0, Q.DESTINATION, worker_cpu=0.99),), C.BROKER_QUOTA),
    Case("throttled, and not behind by movement", (held(0, Q.SOURCE, state=S.OK),), C.BROKER_QUOTA),
    Case(
        "a quota that throttles no late lane",
        (late(0, phases=PRODUCING), lane(1, hold=QuotaHold(Q.SOURCE, 0.5, 1))),
        C.DESTINATION_BOUND,
    ),
    # destination-bound
    Case("produce takes it all", (late(0, phases=PRODUCING), late(1, phases=PRODUCING)), C.DESTINATION_BOUND),
    Case("late by the mean alone", (lane(0, phases=PRODUCING), lane(1)), C.DESTINATION_BOUND),
    Case("the destination does not answer", (silent(0, S.DESTINATION_AWAY), lane(1)), C.DESTINATION_AWAY),
    Case(
        "none late by the mean: all are considered",
        (lane(0, phases=Phases(10, 20, 30, 500)),),
        C.DESTINATION_BOUND,
    ),
    Case("sent batches wait for a slow destination", (late(0, phases=QUEUEING),), C.DESTINATION_BOUND),
    Case(
        "the queue is full, and the rest waits at the source",
        (late(0, phases=Phases(90_000, 0, 9_000, 4_000)),),
        C.DESTINATION_BOUND,
    ),
    Case(
        "late acknowledgements, worker state unknown",
        (late(0, phases=Phases(0, 0, 3_000, 900), worker_cpu=None),),
        C.DESTINATION_BOUND,
    ),
    Case(
        "delivered in time, waiting part unknown",
        (late(0, phases=Phases(0, 0, 10, 90)),),
        C.UNKNOWN,
    ),
    Case("exactly half is not a majority", (late(0, phases=Phases(1_000, 0, 0, 1_000)),), C.UNKNOWN),
    Case("slow to acknowledge, and catching up", (catching_up(0, phases=PRODUCING),), C.BACKLOG),
    # source-bound
    Case("fetch takes it all", (late(0, phases=FETCHING),), C.SOURCE_BOUND),
    Case(
        "it waits at the source while the worker has time",
        (late(0, phases=WAITING), late(1, phases=WAITING)),
        C.SOURCE_BOUND,
    ),
    Case(
        "it waits there while the worker has none",
        (busy(0, phases=WAITING), busy(1, phases=WAITING)),
        C.OVERLOADED_TASK,
        None,
        True,
    ),
    Case("the source does not answer", (silent(0, S.SOURCE_AWAY), silent(1, S.SOURCE_AWAY)), C.SOURCE_AWAY),
    Case(
        "the source does not answer, and its worker is busy",
        (silent(0, S.SOURCE_AWAY, worker_cpu=1.0),),
        C.SOURCE_AWAY,
    ),
    # windows of distant brokers
    Case("its window", (late(0, phases=PRODUCING, destination_window=WINDOW),), C.NETWORK),
    Case("batches queue for its window", (late(0, phases=QUEUEING, destination_window=WINDOW),), C.NETWORK),
    Case(
        "records wait at the source, as the window of the destination keeps the queue full",
        (late(0, phases=WAITING, destination_window=WINDOW),),
        C.NETWORK,
    ),
    Case("the window of the source", (late(0, phases=WAITING, source_window=WINDOW),), C.NETWORK),
    Case("its transfer", (late(0, phases=FETCHING, source_window=WINDOW),), C.NETWORK),
    Case("responses over its window take long", (late(0, **SLOW, destination_window=WINDOW),), C.NETWORK),
    Case(
        "they take longer than usual",
        (late(0, **{**SLOW, "produce_unanswered": 12.0}, destination_window=WINDOW),),
        C.DESTINATION_AWAY,
    ),
    Case(
        "a response is missing",
        (late(0, phases=IN_TIME, produce_unanswered=4.0, destination_window=WINDOW),),
        C.DESTINATION_BOUND,
    ),
    Case("the other window", (late(0, phases=PRODUCING, source_window=WINDOW),), C.DESTINATION_BOUND),
    Case(
        "the other window, fetching", (late(0, phases=FETCHING, destination_window=WINDOW),), C.SOURCE_BOUND
    ),
    Case(
        "a broker throttles it",
        (held(0, Q.DESTINATION, phases=PRODUCING, destination_window=WINDOW),),
        C.BROKER_QUOTA,
    ),
    Case(
        "the worker is busy",
        tuple(busy(n, phases=WAITING, source_window=WINDOW) for n in range(3)),
        C.OVERLOADED_TASK,
        None,
        True,
    ),
    Case("a window, and no late records", (calm(0, destination_window=WINDOW),), C.UNKNOWN),
    Case("a window does not explain it", (late(0, destination_window=WINDOW),), C.UNKNOWN),
    Case("the backlog shrinks", (catching_up(0, source_window=WINDOW),), C.BACKLOG),
    Case(
        "behind since it started, and its window",
        (late(0, state=S.OK, phases=WAITING, destination_window=WINDOW, origin=From.RESTART),),
        C.NETWORK,
    ),
    # no responses
    Case("produce has no answer yet", (late(0, phases=None, produce_unanswered=4.8),), C.DESTINATION_BOUND),
    Case("nor had what came before any", (stuck(0, produce_unanswered=4.8),), C.DESTINATION_BOUND),
    Case("the fetch has no answer yet", (stuck(0, fetch_unanswered=4.8), lane(1)), C.SOURCE_BOUND),
    Case(
        "not late yet, fetch unanswered",
        (lane(0, lag_ms=0, phases=None, fetch_unanswered=4.0), lane(1)),
        C.SOURCE_BOUND,
    ),
    Case("neither is answered", (stuck(0, fetch_unanswered=3.0, produce_unanswered=4.8),), C.NETWORK),
    Case("its answer is late for less than the objective", (stuck(0, produce_unanswered=1.0),), C.UNKNOWN),
    Case(
        "for less, and for most of the backlog's age",
        (stuck(0, lag_ms=1_400, produce_unanswered=0.8),),
        C.DESTINATION_BOUND,
    ),
    Case(
        "what was acknowledged waited at the source",
        (late(0, phases=WAITING, produce_unanswered=1.2),),
        C.SOURCE_BOUND,
    ),
    Case(
        "no answer, and a broker throttles", (held(0, Q.DESTINATION, produce_unanswered=4.8),), C.BROKER_QUOTA
    ),
    Case(
        "no answer, and the worker is busy",
        tuple(busy(n, phases=None, produce_unanswered=4.8) for n in range(3)),
        C.OVERLOADED_TASK,
        None,
        True,
    ),
    Case("no answer, and nearer to the end", (catching_up(0, produce_unanswered=4.8),), C.BACKLOG),
    # wrong timestamps
    Case(
        "a clock is behind, nothing late",
        (calm(0, timestamp_offset=-60.0), lane(1), calm(2, timestamp_offset=-59.0)),
        C.WRONG_TIMESTAMPS,
    ),
    Case("event times are days old", (calm(0, timestamp_offset=-300_000.0),), C.WRONG_TIMESTAMPS),
    Case(
        "producers had kept records during an outage, now a quota",
        (lane(0, hold=QuotaHold(Q.DATASTREAM, 0.5, None), timestamp_offset=-67.0), calm(1)),
        C.OUR_QUOTA,
    ),
    Case(
        "producers had kept records during an outage, now a broker's quota",
        (lane(0, hold=QuotaHold(Q.DESTINATION, 0.5, 1), timestamp_offset=-67.0),),
        C.BROKER_QUOTA,
    ),
    Case(
        "a clock is behind, a quota that leaves no backlog",
        (calm(0, timestamp_offset=-60.0, hold=QuotaHold(Q.DATASTREAM, 0.3, None)),),
        C.WRONG_TIMESTAMPS,
    ),
    Case("by less than would make it late", (calm(0, timestamp_offset=-0.9, phases=None),), C.UNKNOWN),
    Case("a clock ahead makes nothing late", (calm(0, timestamp_offset=60.0),), C.UNKNOWN),
    Case(
        "a clock is behind, and the destination is slow",
        (late(0, phases=PRODUCING, timestamp_offset=-60.0), calm(1, timestamp_offset=-60.0)),
        C.DESTINATION_BOUND,
    ),
    Case(
        "a clock is behind, and another lane does not copy",
        (calm(0, timestamp_offset=-60.0), silent(1, S.SOURCE_AWAY)),
        C.SOURCE_AWAY,
    ),
    Case(
        "a clock is behind, and an instance is silent",
        (calm(0, timestamp_offset=-60.0),),
        C.INSTANCE_LOST,
        silent=("two",),
    ),
    # network
    Case("both ways take long", (late(0, phases=BOTH), late(1, phases=BOTH)), C.NETWORK),
    Case("both, but mostly one", (late(0, phases=Phases(0, 700, 0, 300)),), C.SOURCE_BOUND),
    Case(
        "both, and the worker is busy",
        (busy(0, phases=BOTH), busy(1, phases=BOTH)),
        C.OVERLOADED_TASK,
        None,
        True,
    ),
    Case("both little", (late(0, phases=Phases(2_000, 300, 100, 300)),), C.SOURCE_BOUND),
    # backlog
    Case("what waits becomes less", (catching_up(0), catching_up(1)), C.BACKLOG),
    Case(
        "at full speed, with the worker busy",
        tuple(catching_up(n, worker_cpu=1.0) for n in range(3)),
        C.BACKLOG,
    ),
    Case(
        "at the task's quota",
        (catching_up(0, hold=QuotaHold(Q.TASK, 0.9)), catching_up(1, hold=QuotaHold(Q.TASK, 0.9))),
        C.BACKLOG,
    ),
    Case(
        "behind a quota of the datastream, and coming nearer",
        (catching_up(0, hold=QuotaHold(Q.DATASTREAM, 0.9)),),
        C.BACKLOG,
    ),
    Case("nearer, and not for long enough to be certain", (catching_up(0, eta=None),), C.BACKLOG),
    Case(
        "nearer without certainty, at the task's quota",
        tuple(catching_up(n, eta=None, hold=QuotaHold(Q.TASK, 0.9)) for n in range(3)),
        C.OVERLOADED_TASK,
        None,
        True,
    ),
    # known events take precedence over phases of latency
    Case("an initial copy", (late(0, phases=WAITING, state=None, origin=From.CREATION),), C.INITIAL_COPY),
    Case("an initial copy with an end", (catching_up(0, origin=From.CREATION),), C.INITIAL_COPY),
    Case("an initial copy by a busy worker", (busy(0, state=None, origin=From.CREATION),), C.INITIAL_COPY),
    Case(
        "an initial copy that does not come nearer, and waits at the source",
        (late(0, phases=WAITING, origin=From.CREATION),),
        C.INITIAL_COPY,
    ),
    Case(
        "an initial copy that brokers throttle until it does not come nearer",
        (held(0, Q.SOURCE, origin=From.CREATION),),
        C.BROKER_QUOTA,
    ),
    Case(
        "an initial copy that a busy worker cannot do",
        tuple(busy(n, origin=From.CREATION) for n in range(3)),
        C.OVERLOADED_TASK,
        None,
        True,
    ),
    Case("resumed by a person", (late(0, phases=WAITING, state=None, origin=From.PAUSE),), C.AFTER_PAUSE),
    Case(
        "resumed, with an end",
        (catching_up(0, origin=From.PAUSE), catching_up(1, origin=From.PAUSE)),
        C.AFTER_PAUSE,
    ),
    Case(
        "resumed, and slow to acknowledge",
        (late(0, phases=PRODUCING, state=None, origin=From.PAUSE),),
        C.AFTER_PAUSE,
    ),
    Case("another instance took it", (late(0, phases=WAITING, state=None, origin=From.RESTART),), C.BACKLOG),
    Case("its worker was killed", (late(0, phases=WAITING, origin=From.WORKER), lane(1)), C.WORKER_LOST),
    Case("its worker was killed, and the next one is busy", (busy(0, origin=From.WORKER),), C.WORKER_LOST),
    Case("and slow to acknowledge", (late(0, phases=PRODUCING, origin=From.WORKER),), C.WORKER_LOST),
    Case(
        "killed, and a quota holds it back",
        (held(0, Q.DATASTREAM, origin=From.WORKER),),
        C.OUR_QUOTA,
    ),
    Case("its worker is frozen", (silent(0, S.STOP), silent(1, S.STOP)), C.WORKER_LOST),
    Case(
        "a broker of the destination is frozen, and batches before waited at the source",
        tuple(late(n, phases=WAITING, produce_unanswered=8.0) for n in range(2)),
        C.DESTINATION_AWAY,
    ),
    Case(
        "a broker of the source is frozen, and batches before took long to be acknowledged",
        tuple(late(n, phases=PRODUCING, fetch_unanswered=8.0) for n in range(2)),
        C.SOURCE_AWAY,
    ),
    Case(
        "records were late for a moment, and now wait hardly at all",
        tuple(lane(n, lag_ms=30, phases=Phases(80, 5, 5, 5)) for n in range(3)),
        C.UNKNOWN,
    ),
    Case(
        "an instance was lost for a moment, and records wait hardly at all",
        tuple(lane(n, lag_ms=30, phases=Phases(80, 5, 5, 5), origin=From.INSTANCE) for n in range(3)),
        C.INSTANCE_LOST,
    ),
    Case("restarted by a person", (catching_up(0, origin=From.RESTART), lane(1)), C.BACKLOG),
    Case(
        "its instance was killed",
        (catching_up(0, origin=From.INSTANCE, lost="two"), late(1, phases=WAITING, origin=From.INSTANCE)),
        C.INSTANCE_LOST,
    ),
    Case("an instance was lost, and the next one is busy", (busy(0, origin=From.INSTANCE),), C.INSTANCE_LOST),
    Case(
        "lost, and slow to acknowledge", (late(0, phases=PRODUCING, origin=From.INSTANCE),), C.INSTANCE_LOST
    ),
    Case(
        "lost, and the quota of its task slows the catch-up",
        tuple(held(n, Q.TASK, origin=From.WORKER) for n in range(3)),
        C.WORKER_LOST,
    ),
    Case("lost, and a quota holds it back", (held(0, Q.DATASTREAM, origin=From.INSTANCE),), C.OUR_QUOTA),
    Case(
        "the destination has not answered for long",
        (stuck(0, phases=Phases(10, 20, 30, 3_000), produce_unanswered=8.5),),
        C.DESTINATION_AWAY,
    ),
    Case(
        "the destination is always as slow",
        (stuck(0, phases=Phases(10, 20, 30, 8_000), produce_unanswered=9.0),),
        C.DESTINATION_BOUND,
    ),
    Case(
        "a broker was killed",
        (late(0, phases=WAITING, state=S.CATCHING_UP, origin=From.OUTAGE),),
        C.BACKLOG,
    ),
    Case("resumed, and nothing answers", (silent(0, S.SOURCE_AWAY, origin=From.PAUSE),), C.SOURCE_AWAY),
    Case(
        "resumed, and a transaction is open",
        (silent(0, S.WAITING_FOR_TRANSACTION, origin=From.PAUSE),),
        C.OPEN_TRANSACTION,
    ),
    # our own quotas serve lanes in turn
    Case(
        "the task's quota, while others of the task pass",
        (*HOLDS_TASK, late(7, phases=WAITING), late(8, phases=None)),
        C.OVERLOADED_TASK,
        None,
        True,
    ),
    Case(
        "the quota of the datastream, while others pass",
        (held(0, Q.DATASTREAM), *(late(n, phases=WAITING) for n in range(1, 6))),
        C.OUR_QUOTA,
    ),
    Case(
        "quota of the datastream in another worker is irrelevant",
        (held(0, Q.DATASTREAM, worker=1), *(late(n, phases=WAITING) for n in range(1, 4))),
        C.SOURCE_BOUND,
        C.OUR_QUOTA,
    ),
    Case(
        "every task is held by its quota",
        tuple(held(n, Q.TASK, task=f"orders-{n % 3}") for n in range(9)),
        C.OUR_QUOTA,
        None,
        True,
    ),
    Case(
        "every task is held, and their lanes pass in turn",
        tuple(
            held(n, Q.TASK, task=f"orders-{n % 3}")
            if n < 6
            else late(n, task=f"orders-{n % 3}", phases=WAITING)
            for n in range(12)
        ),
        C.OUR_QUOTA,
        None,
        True,
    ),
    Case(
        "one task of several is held",
        (*HOLDS_TASK, *(lane(n, task="orders-1") for n in range(5, 8))),
        C.OVERLOADED_TASK,
        None,
        True,
    ),
    Case(
        "quota of another task with slow acknowledgements",
        (held(0, Q.TASK, task="b"), *(late(n, phases=PRODUCING) for n in range(1, 4))),
        C.DESTINATION_BOUND,
        C.HOT_PARTITION,
    ),
    # no backlog
    Case("nothing waits now", tuple(calm(n) for n in range(9)), C.UNKNOWN),
    Case(
        "nothing waits now, and it was catching up",
        tuple(calm(n, state=S.CATCHING_UP) for n in range(9)),
        C.UNKNOWN,
    ),
    Case(
        "nothing waits, and was throttled",
        tuple(calm(n, state=S.THROTTLED, hold=QuotaHold(Q.TASK, 0.4)) for n in range(3)),
        C.UNKNOWN,
    ),
    Case(
        "nothing waits for most, and one is slow",
        (*(calm(n) for n in range(3)), late(4, phases=PRODUCING)),
        C.DESTINATION_BOUND,
    ),
    Case("nothing waits, and what arrives is late", (calm(0, phases=PRODUCING),), C.DESTINATION_BOUND),
    Case("nothing waits, and no answer comes", (calm(0, phases=None, fetch_unanswered=4.0),), C.SOURCE_BOUND),
    # start-up
    Case("lanes begin", (silent(0, S.OK, is_starting=True), silent(1, S.OK, is_starting=True)), C.START_UP),
    Case("begins, and nothing is known of it", (LaneEvidence("t-0", is_starting=True),), C.START_UP),
    Case("it does not come to copying", (silent(0, S.STALL, is_starting=True),), C.START_UP),
    # open transaction
    Case(
        "a transaction hides what waits", (silent(0, S.WAITING_FOR_TRANSACTION), lane(1)), C.OPEN_TRANSACTION
    ),
    Case(
        "and the worker is busy", (silent(0, S.WAITING_FOR_TRANSACTION, worker_cpu=1.0),), C.OPEN_TRANSACTION
    ),
    # paused
    Case("paused by itself", (silent(0, S.PAUSED_BY_ITSELF), lane(1)), C.PAUSED),
    Case("the source has lost records", (silent(0, S.TRUNCATED),), C.PAUSED),
    Case("the topic is another one", (silent(0, S.RECREATED),), C.PAUSED),
    Case("nobody copies it", (silent(0, S.STOP, task=None, worker=None),), C.PAUSED),
    Case("paused by a person, with a backlog", (silent(0, S.PAUSED_BY_USER), lane(1)), C.PAUSED),
    Case(
        "paused by a person, not late",
        (silent(0, S.PAUSED_BY_USER, lag_ms=None), late(1, phases=PRODUCING)),
        C.DESTINATION_BOUND,
    ),
    # unknown
    Case("nothing says why", (late(0), late(1)), C.UNKNOWN),
    Case(
        "waiting in the queue, worker state unknown",
        (late(0, phases=QUEUEING, worker_cpu=None),),
        C.UNKNOWN,
    ),
    Case(
        "waiting at the source, worker state unknown",
        (late(0, phases=WAITING, worker_cpu=None),),
        C.UNKNOWN,
    ),
    Case("it stands still, and nobody knows why", (late(0, state=S.STALL, phases=None),), C.UNKNOWN),
    Case("no lane is known", (), C.UNKNOWN),
    Case("its instance is not heard", (lane(0),), C.INSTANCE_LOST, silent=("two",)),
    Case(
        "an older instance that says no rates", (late(0, phases=None, cpu=None, worker_cpu=None),), C.UNKNOWN
    ),
    # several
    Case(
        "most are throttled, one is paused",
        (held(0, Q.SOURCE), held(1, Q.SOURCE), silent(2, S.TRUNCATED)),
        C.BROKER_QUOTA,
        C.PAUSED,
    ),
    Case(
        "a tie: stalled lanes come first",
        (held(0, Q.SOURCE), silent(1, S.TRUNCATED)),
        C.PAUSED,
        C.BROKER_QUOTA,
    ),
    Case(
        "overloaded, and one slow destination",
        (*HOLDS_TASK, late(9, task="orders-1", phases=PRODUCING)),
        C.OVERLOADED_TASK,
        C.DESTINATION_BOUND,
        True,
    ),
    Case(
        "slow destination, and one overloaded task",
        (held(0, Q.TASK), held(1, Q.TASK), *(late(n, task="b", phases=PRODUCING) for n in (2, 3, 4))),
        C.DESTINATION_BOUND,
        C.OVERLOADED_TASK,
    ),
    Case("most are not explained", (late(0), late(1), late(2), held(3, Q.SOURCE)), C.BROKER_QUOTA),
    Case(
        "a backlog with a lane that begins",
        (catching_up(0), catching_up(1), silent(2, S.OK, is_starting=True)),
        C.BACKLOG,
        C.START_UP,
    ),
    Case(
        "three causes: the least is not named",
        (
            held(0, Q.SOURCE),
            held(1, Q.SOURCE),
            held(2, Q.SOURCE),
            catching_up(3),
            catching_up(4),
            silent(5, S.STOP),
        ),
        C.BROKER_QUOTA,
        C.BACKLOG,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda one: one.name)
def test_the_cause_of_a_history(case: Case) -> None:
    found = diagnose(Evidence(case.lanes, case.silent), LIMIT_MS)
    assert (found.cause, found.second, found.placement_can_help) == (case.cause, case.second, case.helps)
    assert found.sentence.startswith(f"{case.cause}: ")
    assert case.second is None or f" {case.second}: " in found.sentence


def test_there_are_histories_of_every_cause() -> None:
    assert len(CASES) >= 60
    assert {case.cause for case in CASES} == set(Cause)


@pytest.mark.parametrize(
    ("lanes", "parts"),
    [
        (
            (held(0, Q.DESTINATION, 0.45, phases=Phases(20, 10, 20, 900)),),
            ("throttled by a broker's quota: broker 3 ", "destination", "45%", "produce", "900 ms of 950 ms"),
        ),
        (
            (held(0, Q.OTHERS, phases=None),),
            ("throttled by our quota: ", "60%"),
        ),
        (
            (
                late(0, phases=Phases(20, 10, 20, 900)),
                late(1, phases=Phases(20, 10, 20, 900)),
                held(2, Q.SOURCE, phases=None),
            ),
            (
                *("destination-bound: produce", "900 ms of 950 ms", "worker process", "30%"),
                *("(2 of 3 late partitions)", "throttled by a broker's quota: broker 3 ", "source", "60%"),
                "(1 of 3 late partitions)",
            ),
        ),
        (
            (stuck(0, produce_unanswered=7.6), stuck(1, produce_unanswered=2.0)),
            ("destination-bound: produce", "7.6 s", "worker process", "30%"),
        ),
        (
            (stuck(0, fetch_unanswered=3.0, produce_unanswered=4.0, worker_cpu=None),),
            ("network: fetch", "3 s", "produce", "4 s"),
        ),
        (
            (hot(0), busy(1), busy(2)),
            ("hot partition: t-0 ", "9 MB/s", "11 MB/s", "orders-0", "worker process", "97%"),
        ),
        (
            (hot(0),),
            ("hot partition: t-0 ", "9 MB/s", "9 MB/s", "orders-0", "no other partition", "97%"),
        ),
        (
            HOLDS_TASK,
            ("overloaded task: orders-0 ", "3 MB/s", "3 partitions", "quota of the task", "60%"),
        ),
        (
            tuple(held(n, Q.TASK, bytes_per_second=None) for n in range(2)),
            ("overloaded task: orders-0 ", "2 partitions", "quota of the task", "60%"),
        ),
        (
            (busy(0, worker_cpu=0.5, worker_waited=0.45),),
            ("overloaded instance: one", "1 late task", "worker process", "50%", "core", "45%"),
        ),
        (
            (catching_up(0), catching_up(1, eta=55.0)),
            ("catching up after an outage: ", "18000 records", "2 partitions", "55 s"),
        ),
        ((silent(0, S.SOURCE_AWAY, "east is away"),), ("source unavailable: t-0: east is away",)),
        (
            (late(0, origin=From.WORKER, origin_ms=1_700_000_000_000),),
            ("worker process lost: ", "22:13:20 UTC", "9000 records", "1 partition"),
        ),
        (
            (late(0, origin=From.INSTANCE, origin_ms=1_700_000_000_000, lost="two"),),
            ("instance lost: two ", "22:13:20 UTC", "9000 records", "1 partition"),
        ),
        (
            (silent(0, S.STOP, "it is silent", lag_records=None),),
            ("worker process lost: t-0: it is silent", "1 partition"),
        ),
        (
            (silent(1, S.TRUNCATED, "offsets 4 to 9 are gone"), silent(2, S.TRUNCATED)),
            ("paused: t-1: offsets 4 to 9 are gone", "1 more"),
        ),
        (
            (lane(0, phases=None),),
            ("unknown: ",),
        ),
    ],
)
def test_the_sentence_has_the_numbers(lanes: tuple[LaneEvidence, ...], parts: tuple[str, ...]) -> None:
    """`parts`: texts that the sentence contains in this order."""
    assert re.match(".*".join(map(re.escape, parts)), diagnose(Evidence(lanes), LIMIT_MS).sentence)


def test_instances_that_were_not_heard_are_named_where_nothing_else_explains_it() -> None:
    found = diagnose(Evidence((lane(0, phases=None),), ("two", "three")), LIMIT_MS)
    assert re.match(r"instance lost: .* two, three\b", found.sentence)


def test_the_evidence_is_data_and_what_is_not_known_is_left_out() -> None:
    found = diagnose(Evidence((held(0, Q.DESTINATION, 0.45, phases=Phases(20, 10, 20, 900)),)), LIMIT_MS)
    assert found.evidence == {
        "late_partitions": 1,
        "explained_partitions": 1,
        "wait_ms": 20,
        "fetch_ms": 10,
        "queue_ms": 20,
        "produce_ms": 900,
        "quota": "destination brokers",
        "throttled_share": 0.45,
        "broker": 3,
        "worker_cores": 0.3,
        "waiting_records": 9_000,
    }
    blind = diagnose(Evidence((LaneEvidence("t-0"),)), LIMIT_MS)
    assert blind.evidence == {"late_partitions": 1, "explained_partitions": 1}
    task = diagnose(Evidence((hot(0), busy(1))), LIMIT_MS).evidence
    assert (task["partition"], task["partition_bytes_per_second"]) == ("t-0", 9_000_000)
    assert (task["task"], task["task_bytes_per_second"]) == ("orders-0", 10_000_000)


def test_phases_are_weighed_by_batches() -> None:
    many = late(0, phases=Phases(0, 0, 0, 2_000), batches_per_second=30.0)
    few = late(1, phases=Phases(0, 0, 0, 6_000), batches_per_second=10.0)
    assert diagnose(Evidence((many, few)), LIMIT_MS).evidence["produce_ms"] == 3_000
    idle = replace(few, batches_per_second=0.0)
    assert "produce_ms" not in diagnose(Evidence((idle,)), LIMIT_MS).evidence


def test_wrong_timestamps_are_named_by_topic_with_their_offset() -> None:
    lanes = [
        replace(calm(0, timestamp_offset=-offset), partition=f"topic-{number}-0")
        for number, offset in enumerate((60.0, 3.0, 7_200.0, 5.0, 6.0, 7.0))
    ]
    found = diagnose(Evidence(tuple(lanes)), LIMIT_MS)
    assert found.cause is Cause.WRONG_TIMESTAMPS
    assert found.evidence["timestamp_offset_seconds"] == -7_200.0
    assert found.evidence["explained_partitions"] == 6
    assert re.findall(r"topic-\d", found.sentence) == ["topic-2", "topic-0", "topic-5", "topic-4", "topic-3"]
    assert not found.placement_can_help


QUOTA = QuotaHold(Q.DATASTREAM, 0.9)


@pytest.mark.parametrize(
    ("lost_ms", "lanes", "cause"),
    [
        (100_000, (calm(0), calm(1)), C.INSTANCE_LOST),
        (94_000, (calm(0), calm(1)), C.INSTANCE_LOST),
        (93_999, (calm(0), calm(1)), C.UNKNOWN),
        (125_000, (calm(0), calm(1)), C.INSTANCE_LOST),
        (125_001, (calm(0), calm(1)), C.UNKNOWN),
        (90_000, (late(0, hold=QUOTA), late(1)), C.OUR_QUOTA),
        (101_000, (late(0), late(1)), C.INSTANCE_LOST),
        (90_000, (late(0), late(1)), C.UNKNOWN),
    ],
)
def test_a_loss_explains_only_records_that_were_late_then(
    lost_ms: int, lanes: tuple[LaneEvidence, ...], cause: Cause
) -> None:
    """They were late from 100 s to 120 s after an objective of 1 s; also where none waits any longer."""
    lost = replace(lanes[0], origin=From.INSTANCE, origin_ms=lost_ms, lost="two")
    assert diagnose(Evidence((lost, *lanes[1:]), late=((100_000, 120_000),)), LIMIT_MS).cause is cause


def test_a_loss_without_a_time_of_late_records_explains_a_backlog_only() -> None:
    lost = {"origin": From.WORKER, "origin_ms": 5}
    assert diagnose(Evidence((late(0, **lost),)), LIMIT_MS).cause is C.WORKER_LOST
    assert diagnose(Evidence((calm(0, **lost),)), LIMIT_MS).cause is C.UNKNOWN
