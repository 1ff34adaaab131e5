"""A continuous audit beside a copy, between two fake clusters."""

from __future__ import annotations

from random import Random

import pytest

from mirror.audit.verdicts import Verdict
from mirror.jobs.verify_job import VerifyJob
from mirror.jobs.watch_job import AuditWatch
from mirror.model.datastreams.policy import CopyPolicy, Guarantee, OnLoss
from mirror.model.topics import TopicPartition, TopicSelection
from tests.builders import DESTINATION, SOURCE
from tests.fakes.broker.mirrored import MirroredFakes

JOB = VerifyJob(SOURCE, DESTINATION, TopicSelection("t"), state="g-t", allows_expired=True)
PLACE = TopicPartition("t", 0)


class Watched:
    """A copy with an audit that uses the context of its engine between its steps."""

    def __init__(self, fakes: MirroredFakes) -> None:
        self.fakes = fakes
        self.watch = AuditWatch(JOB)
        self.written = 0
        fakes.make_topic("t")
        fakes.start("t")

    def write(self, count: int) -> None:
        self.fakes.write("t", self.written, count)
        self.written += count

    def copy(self) -> None:
        self.fakes.run_to("t", self.written)

    def run_once(self) -> int:
        """Audit once; return the number of equal records."""
        verdicts = self.fakes.context.run(self.watch.run_once(self.fakes.context))
        return sum(one.comparison.found.counts.equal for one in verdicts)

    def through(self) -> int | None:
        return self.watch.watermarks.through(0)


@pytest.fixture
def watched(fakes: MirroredFakes) -> Watched:
    return Watched(fakes)


def test_each_run_compares_what_was_copied_since(watched: Watched) -> None:
    watched.write(10)
    watched.copy()
    assert [watched.run_once(), watched.run_once()] == [10, 0]
    first = watched.through()
    assert first is not None
    watched.write(5)
    watched.copy()
    watched.fakes.clock.advance(60)
    assert watched.run_once() == 5
    second = watched.through()
    assert second is not None
    assert second >= first + 60_000


def test_records_in_flight_hold_the_watermark(watched: Watched) -> None:
    watched.write(10)
    watched.copy()
    watched.run_once()
    before = watched.through()
    watched.write(3)
    watched.run_once()
    assert watched.through() == before
    watched.copy()
    watched.run_once()
    after = watched.through()
    assert after is not None
    assert before is not None
    assert after > before


def test_an_open_transaction_holds_the_watermark_until_it_is_decided(watched: Watched) -> None:
    watched.write(4)
    watched.copy()
    watched.run_once()
    before = watched.through()
    end = watched.fakes.source.write_in_transaction("t", watched.fakes.records(4, 2))
    watched.fakes.run(2)
    watched.run_once()
    assert watched.through() == before
    end(commit=True)
    watched.fakes.run_until(lambda: watched.fakes.lane("t").checkpoint >= 7, "the transaction is copied")
    watched.fakes.run_to("t", 7)
    assert watched.run_once() == 2
    after = watched.through()
    assert after is not None
    assert before is not None
    assert after > before


def test_a_loss_at_the_destination_stops_the_watermark(watched: Watched) -> None:
    for _ in range(4):
        watched.write(5)
        watched.copy()
    watched.run_once()
    assert watched.through() is not None
    watched.fakes.target.log("t").truncate(12)
    verdicts = watched.fakes.context.run(watched.watch.run_once(watched.fakes.context))
    assert sum(one.missing for one in verdicts) == 20 - len(watched.fakes.copied("t"))
    assert watched.through() is None


def test_a_loss_is_recognized_although_the_log_has_grown_again(watched: Watched) -> None:
    for _ in range(4):
        watched.write(5)
        watched.copy()
    watched.run_once()
    target = watched.fakes.target
    target.elect_uncleanly("t", 0, target.live_brokers()[0], 12)
    target.write("t", [(1_000, b"stranger", b"", [])] * 20)
    verdicts = watched.fakes.context.run(watched.watch.run_once(watched.fakes.context))
    assert any(one.missing for one in verdicts)
    assert watched.through() is None


def test_a_leader_change_without_a_loss_repeats_no_comparison(watched: Watched) -> None:
    watched.write(10)
    watched.copy()
    through = watched.run_once() and watched.through()
    watched.fakes.target.move_leader("t", 0, watched.fakes.target.live_brokers()[0])
    assert watched.run_once() == 0
    assert watched.through() == through


def test_the_watermark_is_never_ahead_while_brokers_and_engine_fail(watched: Watched) -> None:
    random, fakes = Random(44), watched.fakes
    for number in range(12):
        watched.write(random.randint(1, 4))
        if number % 4 == 3:
            fakes.restart("t")
        fakes.run(random.choice([0.1, 0.5, 2.0]))
        watched.run_once()
        through = watched.through()
        copied = {one.value for one in fakes.copied("t")}
        batches = fakes.source.log("t").batches
        waiting = [one.appended_ms for one in batches if b"%d" % one.last not in copied]
        assert through is None or all(stamp >= through for stamp in waiting)
    watched.copy()
    watched.run_once()
    assert watched.through() is not None


def test_a_foreign_record_between_two_runs_is_found(watched: Watched) -> None:
    watched.write(5)
    watched.copy()
    watched.run_once()
    watched.fakes.target.write("t", [(1_000, b"stranger", b"", [])])
    watched.write(3)
    watched.copy()
    (verdict,) = watched.fakes.context.run(watched.watch.run_once(watched.fakes.context))
    (finding,) = verdict.comparison.found.findings
    assert (finding.verdict, finding.target_offset) == (Verdict.FOREIGN, 5)


def test_records_repeated_by_a_new_owner_between_runs_are_duplicated(watched: Watched) -> None:
    random, fakes = Random(7), watched.fakes
    for _ in range(5):
        watched.write(random.randint(1, 4))
        fakes.run(random.choice([0.1, 0.5]))
        fakes.restart("t", policy=CopyPolicy(guarantee=Guarantee.AT_LEAST_ONCE))
        verdicts = fakes.context.run(watched.watch.run_once(fakes.context))
        assert all(one.verdict in (Verdict.COMPLETE, Verdict.DUPLICATED, Verdict.LATE) for one in verdicts)


def test_a_source_topic_that_was_created_again_is_no_difference(watched: Watched) -> None:
    fakes = watched.fakes
    fakes.restart("t", policy=CopyPolicy(on_loss=OnLoss.CONTINUE))
    for _ in range(2):
        watched.write(10)
        watched.copy()
        if watched.written == 10:
            fakes.context.run(watched.watch.run_once(fakes.context))
    fakes.source.recreate_topic("t")
    watched.written = 0
    watched.write(3)
    for _ in range(2):
        verdicts = fakes.context.run(watched.watch.run_once(fakes.context))
        assert not any(one.surplus for one in verdicts)
        fakes.run_until(lambda: len(fakes.copied("t")) >= 23, "the new topic is copied")
