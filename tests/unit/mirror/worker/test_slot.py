"""Test when a worker process is killed and the next one started, decided from times alone."""

from __future__ import annotations

from mirror.worker.slot import WorkerSilence, WorkerSlot


def a_slot(now: float = 0.0) -> WorkerSlot:
    slot = WorkerSlot(0, restart_delay_seconds=1.0, silence=WorkerSilence(20.0))
    slot.launch(now)
    slot.data_plane = "interpreted"
    return slot


def test_deaths_in_a_row_double_the_delay_and_a_steady_run_ends_the_row() -> None:
    slot, now = a_slot(), 0.0
    for delay in (1.0, 2.0, 4.0):
        assert slot.end(now, failed=True) == delay
        assert not slot.is_due(now + delay - 0.1)
        assert slot.is_due(now + delay)
        now += delay
        slot.launch(now)
        slot.data_plane = "interpreted"
    assert slot.end(now + 61.0, failed=True) == 1.0


def test_one_that_never_became_ready_is_not_steady() -> None:
    slot = a_slot()
    slot.end(0.0, failed=True)
    slot.launch(1.0)
    assert slot.end(100.0, failed=True) == 2.0


def test_one_that_was_told_to_end_is_overdue_after_its_time_and_never_silent() -> None:
    slot = a_slot()
    slot.end_by = 22.0
    for second in range(1, 22):
        slot.listen(float(second), beats=0)
        assert not slot.is_overdue(float(second))
    assert not slot.is_silent
    assert slot.is_overdue(22.0)


def test_a_silent_one_that_computes_has_three_times_the_limit() -> None:
    slot, cpu = a_slot(), 0.0
    for second in range(1, 60):
        cpu += 0.1
        slot.listen(float(second), beats=0)
        assert not slot.has_hung(lambda: cpu)  # noqa: B023
    slot.listen(60.0, beats=0)
    assert slot.has_hung(lambda: cpu)
    assert not slot.has_hung(lambda: cpu), "it is killed once"
