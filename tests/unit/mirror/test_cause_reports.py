"""One report for each cause, with the number of those that it affects."""

from __future__ import annotations

from math import log2

from mirror.repeats import CauseReport, CauseReports, common_text


def test_many_subjects_of_one_cause_are_one_report_and_one_at_its_end() -> None:
    reports = CauseReports[int]()
    for subject in range(64):
        reports.affected(subject, "away", f"away from {subject}", 100.0 + subject / 100)
    assert reports.due(100.9) == []
    assert reports.due(101.0) == [CauseReport("away from 0", 64)]
    for subject in range(64):
        reports.affected(subject, "away", "still away", 150.0)
    assert reports.due(150.0) == []
    for subject in range(64):
        reports.freed(subject, 200.0)
    reports.freed(7, 201.0)
    assert reports.due(202.0) == [CauseReport("away from 0", 64, True, 102.0)]
    assert reports.due(300.0) == []


def test_a_cause_that_spreads_is_reported_as_often_as_its_number_doubles() -> None:
    reports = CauseReports[int]()
    found = []
    for subject in range(1_000):
        reports.affected(subject, "away", "away", 10.0 * subject)
        found += reports.due(10.0 * subject + 5)
    assert [one.count for one in found] == [2**power for power in range(int(log2(1_000)) + 1)]


def test_a_subject_has_one_cause_at_a_time() -> None:
    reports = CauseReports[str]()
    reports.affected("a", "one", "one", 0.0)
    assert [one.reason for one in reports.due(2.0)] == ["one"]
    reports.affected("a", "two", "two", 3.0)
    assert [(one.reason, one.is_over) for one in reports.due(5.0)] == [("one", True), ("two", False)]


def test_a_cause_that_was_over_before_it_was_reported_is_reported_all_the_same() -> None:
    reports = CauseReports[str]()
    reports.affected("a", "one", "one", 0.0)
    reports.freed("a", 0.1)
    assert [one.is_over for one in [*reports.due(1.0), *reports.due(2.0)]] == [False, True]


def test_names_and_numbers_of_a_subject_are_no_part_of_its_cause() -> None:
    one = common_text("cannot write to t-1 at b: code (7) (source offset 12)", "t-1", "")
    two = common_text("cannot write to t-10 at b: code (7) (source offset 9)", "t-10")
    assert one == two
    assert common_text("", "t-1") == ""
    assert common_text("é-1: 5", "é-1") == common_text("ü-2: 77", "ü-2")
