"""Test the latest known loads, which are used while the provider does not respond."""

from __future__ import annotations

import re
from dataclasses import replace

from mirror.instance.loads.observations import DAY_MS, NewestLoads
from mirror.model.load import LoadLevel, LoadReport, LoadSource, PartitionLoad, RateSource
from mirror.model.topics import TopicPartition
from tests.builders import DESTINATION, SOURCE_LOADS

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
NOW = 2 * DAY_MS


def test_what_was_measured_is_held_with_its_age_and_defaults_are_nothing() -> None:
    newest = NewestLoads()
    default = PartitionLoad(5.0, 5.0, LoadLevel.DEFAULT)
    of_topic = PartitionLoad(7.0, None, LoadLevel.TOPIC, RateSource.MEAN, NOW - 300_000)
    newest.note(SOURCE_LOADS, LoadReport({T0: of_topic, T1: default}, "test", NOW), NOW)
    report = newest.instead(SOURCE_LOADS, [T0, T1], "frozen", NOW + 15_000)
    assert report is not None
    assert report.loads == {
        T0: PartitionLoad(7.0, None, LoadLevel.TOPIC, RateSource.HELD, NOW - 300_000),
    }
    (note,) = report.notes
    assert re.search(r"\b5 min\b.*\b1 of 2\b.*: frozen$", note)
    assert newest.instead(LoadSource(DESTINATION), [T0], "frozen", NOW) is None
    assert newest.instead(SOURCE_LOADS, [T1], "frozen", NOW) is None
    assert (newest.of(SOURCE_LOADS, T0), newest.of(SOURCE_LOADS, T1)) == (7.0, None)


def test_an_answer_about_some_partitions_leaves_the_others_as_they_were() -> None:
    newest = NewestLoads()
    newest.note(SOURCE_LOADS, LoadReport({T0: PartitionLoad(1.0), T1: PartitionLoad(2.0)}, "test", NOW), NOW)
    newest.note(SOURCE_LOADS, LoadReport({T0: PartitionLoad(9.0)}, "test"), NOW + 1_000)
    report = newest.instead(SOURCE_LOADS, [T0, T1], "dead", NOW + 2_000)
    assert report is not None
    assert {key: one.bytes_per_second for key, one in report.loads.items()} == {T0: 9.0, T1: 2.0}
    assert report.measured_at_ms == NOW + 1_000
    assert newest.total(SOURCE_LOADS, [T0, T1, TopicPartition("u", 0)]) == 11.0


def test_a_day_later_nothing_is_known() -> None:
    newest = NewestLoads()
    newest.note(SOURCE_LOADS, LoadReport({T0: PartitionLoad(1.0)}, "test", NOW), NOW)
    assert newest.instead(SOURCE_LOADS, [T0], "dead", NOW + DAY_MS) is not None
    assert newest.instead(SOURCE_LOADS, [T0], "dead", NOW + DAY_MS + 1) is None
    newest.note(SOURCE_LOADS, LoadReport({T1: PartitionLoad(1.0)}, "test", NOW), NOW + DAY_MS + 1)
    assert newest.of(SOURCE_LOADS, T0) is None


def test_where_an_answer_has_only_the_default_the_load_of_before_is_held() -> None:
    newest = NewestLoads()
    slope = PartitionLoad(1.0, None, LoadLevel.PARTITION, RateSource.SLOPE, NOW)
    loads = {T0: slope, T1: slope}
    newest.note(SOURCE_LOADS, LoadReport(loads, "pinot", NOW, (), frozenset({T0, T1})), NOW)
    before = newest.known(SOURCE_LOADS)
    assert (before.provider, before.loads) == ("pinot", loads)
    assert before.at_least == {T0, T1}
    default = PartitionLoad(5.0, None, LoadLevel.DEFAULT)
    newest.note(SOURCE_LOADS, LoadReport({T0: slope, T1: default}, "pinot", NOW), NOW + 1_000)
    known = newest.known(SOURCE_LOADS)
    assert known.loads == {T0: slope, T1: replace(slope, rate_source=RateSource.HELD)}
    assert known.at_least == {T1}
    assert before.loads == loads, "a returned report never changes"
    assert (known.of(T1, NOW + DAY_MS), known.of(T1, NOW + DAY_MS + 1)) == (known.loads[T1], None)
    assert newest.known(LoadSource(DESTINATION)).provider == ""


def test_what_a_clock_that_is_ahead_has_measured_is_not_believed_for_ever() -> None:
    newest, ahead = NewestLoads(), NOW + 400 * DAY_MS
    report = LoadReport({T0: PartitionLoad(1.0, measured_at_ms=ahead), T1: PartitionLoad(2.0)}, "test", ahead)
    newest.note(SOURCE_LOADS, report, NOW)
    assert newest.measured_at_ms(SOURCE_LOADS) == NOW
    assert newest.instead(SOURCE_LOADS, [T0, T1], "dead", NOW + 5_000) is not None
    assert newest.instead(SOURCE_LOADS, [T0, T1], "dead", NOW + DAY_MS + 1) is None


def test_the_order_is_own_last_known_seasonal_topic_mean_default() -> None:
    newest = NewestLoads()
    own = PartitionLoad(1.0, None, LoadLevel.PARTITION, RateSource.SLOPE, NOW)
    seasonal = replace(own, bytes_per_second=2.0, rate_source=RateSource.SEASONAL)
    mean = PartitionLoad(3.0, None, LoadLevel.TOPIC, RateSource.MEAN, NOW)
    default = PartitionLoad(4.0, None, LoadLevel.DEFAULT, RateSource.CONFIGURED)
    ranked = [own, seasonal, mean, default]
    for before in ranked[:-1]:
        for now in ranked:
            newest = NewestLoads()
            newest.note(SOURCE_LOADS, LoadReport({T0: before}, "pinot", NOW), NOW)
            report = LoadReport({T0: now}, "pinot", NOW)
            newest.note(SOURCE_LOADS, report, NOW + 1_000)
            used = newest.completed(SOURCE_LOADS, report, NOW + 1_000).loads[T0]
            best = min(before, now, key=ranked.index)
            assert used.bytes_per_second == best.bytes_per_second, (before, now)
            assert newest.of(SOURCE_LOADS, T0) == best.bytes_per_second


def test_a_report_says_which_of_its_loads_are_the_last_known() -> None:
    newest = NewestLoads()
    own = PartitionLoad(1.0, None, LoadLevel.PARTITION, RateSource.SLOPE, NOW)
    newest.note(SOURCE_LOADS, LoadReport({T0: own, T1: own}, "pinot", NOW), NOW)
    seasonal = replace(own, bytes_per_second=2.0, rate_source=RateSource.SEASONAL)
    report = LoadReport({T0: own, T1: seasonal}, "pinot", NOW, ("stale",))
    done = newest.completed(SOURCE_LOADS, report, NOW + 60_000)
    assert done.loads == {T0: own, T1: replace(own, rate_source=RateSource.HELD)}
    assert len(done.notes) == 2
    assert "1 of 2" in done.notes[1]
    late = NOW + DAY_MS + 1
    assert newest.completed(SOURCE_LOADS, report, late) == report, "they expire after a day"


def test_an_estimate_is_no_measurement() -> None:
    newest = NewestLoads()
    seasonal = PartitionLoad(2.0, None, LoadLevel.PARTITION, RateSource.SEASONAL, NOW)
    newest.note(SOURCE_LOADS, LoadReport({T0: seasonal}, "pinot"), NOW)
    assert newest.measured_at_ms(SOURCE_LOADS) is None
    assert newest.of(SOURCE_LOADS, T0) == 2.0
