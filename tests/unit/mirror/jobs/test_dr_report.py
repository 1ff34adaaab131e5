"""Reports on switch-overs: stages, targets, and what is kept of earlier operations."""

from __future__ import annotations

import pytest

from mirror.errors import NotFound
from mirror.jobs.dr.fork import Loss, PartitionLoss
from mirror.jobs.dr.operation import (
    STEPS,
    AuditedTopic,
    Kind,
    MovedGroup,
    PairState,
    Step,
    Switchover,
    begin,
    completed,
    entered,
    failed,
    operation_of,
)
from mirror.jobs.dr.report import report_of
from mirror.jobs.dr.settings import PairSettings

PAIR = PairSettings(primary="east", standby="west", datastreams=["orders"], rto_seconds=5)
FRESH = PairState(name="p", active="east", datastreams={"orders": "orders"})
FOUND = {
    "ends": {"t": {0: 3, 1: 4}},
    "starts": {"t": {0: 5}},
    "groups": (MovedGroup(name="g", positions=2), MovedGroup(name="h", positions=1, has_members=True)),
    "audits": (AuditedTopic(topic="t", through_ms=7, faults=0, more_faults=0, problem=""),),
    "gaps": ("t-0: offsets 1 to 2 were truncated",),
}


def state_at(*steps: Step, state: PairState = FRESH, target: str = "west") -> PairState:
    """Return a pair whose switch-over has begun these steps, one each second."""
    begun = begin(state, target, f"to {target}", 0, "ann@host")
    operation = operation_of(begun)
    for number, step in enumerate(steps, start=1):
        operation = entered(operation, step, number * 1_000)
    return begun.with_(operation=operation.with_(**FOUND))


def test_a_completed_switchover_has_all_results() -> None:
    report = report_of(completed(state_at(*STEPS[Kind.SWITCHOVER]), 10_000), "", PAIR, 20_000, "bob@host")
    assert [row["step"] for row in report["stages"]] == [step.value for step in STEPS[Kind.SWITCHOVER]]
    assert {row["outcome"] for row in report["stages"]} == {"completed"}
    assert report["stages"][-1]["ended_ms"] == report["ended_ms"] == 10_000
    assert (report["outcome"], report["operator"], report["issuer"]) == ("completed", "ann@host", "bob@host")
    rto, rpo = report["targets"]
    assert (rto["actual_seconds"], rto["passed"]) == (8.0, False)
    assert (rpo["actual_seconds"], rpo["passed"]) == (0.0, True)
    assert [(row["origin_end"], row["target_start"]) for row in report["positions"]] == [(3, 5), (4, None)]
    assert [group["read_again"] for group in report["groups"]] == [0, None]
    assert (len(report["audits"]), len(report["gaps"])) == (1, 1)


def test_an_undone_switchover_names_the_step_that_failed() -> None:
    state = failed(state_at(Step.LAG_OK, Step.FENCED), "a producer writes")
    report = report_of(completed(state, 9_000), "", PAIR, 20_000, "")
    assert [row["outcome"] for row in report["stages"]] == ["completed", "failed"]
    assert report["stages"][-1]["ended_ms"] is None
    assert (report["outcome"], report["failure"]) == ("undone", "a producer writes")
    assert [target["passed"] for target in report["targets"]] == [False, None]


def test_a_repeated_step_is_shown() -> None:
    steps = (Step.LAG_OK, Step.FENCED, Step.FENCE_VERIFIED, Step.FENCED, Step.FENCE_VERIFIED)
    report = report_of(state_at(*steps), "", PAIR, 20_000, "")
    assert [row["outcome"] for row in report["stages"]] == [
        "completed",
        "completed",
        "repeated",
        "completed",
        "in progress",
    ]
    assert (report["outcome"], report["ended_ms"]) == ("in progress", None)


def test_earlier_operations_are_reported_without_positions() -> None:
    there = completed(state_at(*STEPS[Kind.SWITCHOVER]), 10_000)
    back = completed(state_at(*STEPS[Kind.SWITCHOVER], state=there, target="east"), 10_000)
    assert back.history[0].ends == {}
    first, last = (report_of(back, identity, PAIR, 0, "") for identity in ("to west", "to east"))
    assert (first["target"], first["positions"], first["groups"]) == ("west", None, None)
    assert (last["target"], len(last["positions"])) == ("east", 2)
    assert report_of(back, "", PAIR, 0, "") == last


def test_operators_who_continue_or_undo_an_operation_are_named() -> None:
    state = state_at(Step.LAG_OK)
    assert report_of(state, "", PAIR, 0, "")["continued_by"] == []
    for operator in ("bob@host", "ann@host", "eve", "bob@host"):
        state = begin(state, "west", "other", 0, operator)
    report = report_of(completed(state, 9_000), "", PAIR, 0, "")
    assert (report["operator"], report["continued_by"]) == ("ann@host", ["bob@host", "eve"])


@pytest.mark.parametrize("identity", ["", "other"])
def test_an_unknown_operation_is_refused(identity: str) -> None:
    with pytest.raises(NotFound):
        report_of(FRESH, identity, PAIR, 0, "")


def test_an_operation_without_steps_has_no_stages() -> None:
    state = FRESH.with_(operation=Switchover(identity="i", origin="east", target="west", begun_ms=0))
    assert report_of(state, "", PAIR, 0, "")["stages"] == []


def test_the_loss_of_a_failover_is_its_recovery_point() -> None:
    def actual(*seconds: float | None) -> float | None:
        rows = tuple(
            PartitionLoss(topic="t", partition=number, first=0, end=None, least=0, most=1, seconds=one)
            for number, one in enumerate(seconds)
        )
        begun = begin(FRESH, "west", "i", 0, "", Kind.FAILOVER, loss=Loss(partitions=rows))
        operation = operation_of(begun)
        for number, step in enumerate(STEPS[Kind.FAILOVER], start=1):
            operation = entered(operation, step, number * 1_000)
        report = report_of(completed(begun.with_(operation=operation), 9_000), "", PAIR, 0, "")
        assert report["scenario"] == "failover"
        assert {row["outcome"] for row in report["stages"]} == {"completed"}
        found: float | None = report["targets"][1]["actual_seconds"]
        return found

    assert actual() == 0.0
    assert actual(1.5, 0.5) == 1.5
    assert actual(1.5, None) is None, "unknown is not zero"
