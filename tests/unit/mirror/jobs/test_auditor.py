"""The continuous audit of an instance beside a copy, between two fake clusters and in virtual time."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import fastavro
import pytest

from mirror.audit.verdicts import Verdict
from mirror.audit.windows import WindowTally
from mirror.errors import Unreachable
from mirror.jobs.audits.auditor import Auditor, is_sampled
from mirror.jobs.audits.lane_logs import AuditLog
from mirror.jobs.audits.lanes import AuditedLanes, AuditOptions, LaneAuditReport
from mirror.jobs.partition_verdict import StoredCopy
from mirror.jobs.verify_job import VerifyJob, audit_partition
from mirror.lane.offset_map import OffsetMap
from mirror.lane.progress import main_key
from mirror.model.audit_window import AuditWindow
from mirror.model.datastreams.audit_mode import AuditMode
from mirror.model.datastreams.lanes import LaneKey
from mirror.model.datastreams.policy import CopyPolicy, Guarantee, OnLoss
from mirror.model.identifiers import DatastreamName, GroupName
from mirror.model.rows import avro_schema
from mirror.model.topics import TopicPartition, TopicSelection
from mirror.protocol.batches.batch import HEADER_SIZE
from tests.builders import DESTINATION, SOURCE
from tests.fakes.broker.contents import committed
from tests.fakes.broker.faults import Delay, Drop
from tests.fakes.broker.mirrored import MirroredFakes
from tests.fakes.broker.topics import NOBODY

JOB = VerifyJob(SOURCE, DESTINATION, TopicSelection("t"), state="g-t", allows_expired=True)
PLACE = TopicPartition("t", 0)
ROWS = "headrace-audit-windows"
WINDOW_MS = 600_000
PRODUCE, FETCH, LIST_OFFSETS = 0, 1, 2
MODES = [AuditMode.COUNTS, AuditMode.FULL]


class Audited:
    """A copy with the auditor of its instance."""

    def __init__(self, fakes: MirroredFakes) -> None:
        self.fakes = fakes
        self.written = 0
        self.lanes = AuditedLanes(DatastreamName("t"), JOB, AuditMode.FULL, (PLACE,))
        fakes.make_topic("t")
        fakes.target.create_topic(ROWS, 2)
        fakes.start("t")
        self.restart()

    def restart(self) -> None:
        """Replace the auditor by one that remembers nothing."""
        options = AuditOptions("one", DESTINATION, ROWS, WINDOW_MS, 0, 10**9)
        self.auditor = Auditor(self.fakes.context, options)

    def write(self, count: int) -> None:
        self.fakes.write("t", self.written, count)
        self.written += count

    def copy(self, count: int) -> None:
        self.write(count)
        self.fakes.run_to("t", self.written)

    def audit(self, mode: AuditMode | None = None) -> LaneAuditReport:
        """Audit until there is no more."""
        lanes = self.lanes if mode is None else replace(self.lanes, mode=mode)
        while self.fakes.context.run(self.auditor.run_once(lanes)):
            pass
        return self.auditor.reports[lanes.name][PLACE]

    def rows(self) -> Sequence[dict[str, Any]]:
        """Return the rows of the topic; of those with the same id, the newest."""
        schema = fastavro.parse_schema(avro_schema(AuditWindow))
        found: dict[str, dict[str, Any]] = {}
        for number in range(2):
            for record in committed(self.fakes.target.log(ROWS, number)):
                row: Any = fastavro.schemaless_reader(io.BytesIO(record.value or b""), schema, None)
                assert record.key == row["id"].encode()
                if row["time_ms"] >= found.get(row["id"], row)["time_ms"]:
                    found[row["id"]] = row
        return list(found.values())

    def total(self, column: str) -> int:
        return sum(row[column] for row in self.rows())


@pytest.fixture
def audited(fakes: MirroredFakes) -> Audited:
    return Audited(fakes)


@pytest.mark.parametrize("mode", [*MODES, AuditMode.SAMPLED])
def test_windows_of_event_time_add_up_to_the_records(audited: Audited, mode: AuditMode) -> None:
    starts = set()
    for _ in range(3):
        starts.add(audited.fakes.clock.now_ms() // WINDOW_MS * WINDOW_MS)
        audited.copy(10)
        audited.audit(mode)
        audited.copy(4)
        audited.fakes.clock.advance(WINDOW_MS / 1_000)
    report = audited.audit(mode)
    assert (report.waiting, report.faults, report.problem) == (0, (), "")
    assert report.through_ms is not None
    assert audited.total("count") == 42
    assert {row["bucket_start_ms"] for row in audited.rows()} == starts
    assert {row["verdict"] for row in audited.rows()} == {Verdict.COMPLETE.value}


def test_late_records_are_added_to_the_window_of_their_time(audited: Audited) -> None:
    begun_ms = audited.fakes.clock.now_ms()
    audited.copy(5)
    audited.audit()
    audited.fakes.clock.advance(2 * WINDOW_MS / 1_000)
    audited.fakes.source.write(
        "t", [(begun_ms, b"key", b"late", []), (audited.fakes.clock.now_ms(), b"k", b"", [])]
    )
    audited.written += 2
    audited.fakes.run_to("t", 7)
    audited.audit()
    first = begun_ms // WINDOW_MS * WINDOW_MS
    by_window: dict[int, int] = {}
    for row in audited.rows():
        by_window[row["bucket_start_ms"]] = by_window.get(row["bucket_start_ms"], 0) + row["count"]
    assert by_window == {first: 6, first + 2 * WINDOW_MS: 1}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("is_followed", [False, True])
def test_a_record_of_another_writer_is_found_at_its_offset(
    audited: Audited, mode: AuditMode, is_followed: bool
) -> None:
    audited.copy(5)
    audited.audit(mode)
    audited.fakes.target.write("t", [(1_000, b"stranger", b"", [])])
    if is_followed:
        audited.copy(3)
    report = audited.audit(mode)
    (fault,) = report.faults
    assert (fault.verdict, fault.records, fault.target_offset) == (Verdict.FOREIGN, 1, 5)
    assert audited.total("foreign") == 1
    assert json.loads(next(row["findings"] for row in audited.rows() if row["foreign"]))
    assert audited.audit(mode).faults == report.faults


@pytest.mark.parametrize("mode", MODES)
def test_records_in_flight_are_no_difference_and_hold_the_watermark(
    audited: Audited, mode: AuditMode
) -> None:
    audited.copy(5)
    before = audited.audit(mode).through_ms
    audited.fakes.clock.advance(60)
    audited.write(3)
    report = audited.audit(mode)
    assert (report.faults, report.through_ms) == ((), before)
    audited.fakes.run_to("t", 8)
    after = audited.audit(mode)
    assert after.faults == ()
    assert (after.through_ms or 0) > (before or 0)


@pytest.mark.parametrize("mode", MODES)
def test_records_deleted_before_their_retention_are_missing(audited: Audited, mode: AuditMode) -> None:
    audited.copy(10)
    audited.fakes.target.log("t").delete_before(6)
    report = audited.audit(mode)
    assert [(one.verdict, one.records, one.source_offset) for one in report.faults] == [
        (Verdict.MISSING, 6, 0)
    ]
    assert report.through_ms is None
    assert audited.total("missing") == 6
    audited.fakes.source.log("t").delete_before(6)
    audited.copy(1)
    assert audited.audit(mode).faults == ()


@pytest.mark.parametrize("mode", MODES)
def test_a_new_auditor_continues_where_the_last_one_was_killed(audited: Audited, mode: AuditMode) -> None:
    audited.copy(10)
    audited.fakes.target.write("t", [(1_000, b"stranger", b"", [])])
    before = audited.audit(mode)
    audited.restart()
    audited.copy(4)
    after = audited.audit(mode)
    assert after.faults == before.faults
    assert audited.total("count") == 14
    assert {(row["source_start"], row["source_end"]) for row in audited.rows() if row["count"]} == {(0, 14)}


def test_rows_of_a_run_that_was_not_stored_are_replaced(
    audited: Audited, monkeypatch: pytest.MonkeyPatch
) -> None:
    audited.copy(10)

    async def killed(*_: object) -> None:
        raise Unreachable("killed before the state was stored")

    with monkeypatch.context() as patch:
        patch.setattr(AuditLog, "save_states", killed)
        with pytest.raises(Unreachable):
            audited.audit()
    assert audited.total("count") == 10
    audited.restart()
    audited.copy(7)
    audited.audit()
    assert audited.total("count") == 17


def test_nothing_is_audited_until_the_rows_are_stored(audited: Audited) -> None:
    audited.fakes.target.delete_topic(ROWS)
    audited.copy(10)
    with pytest.raises(Unreachable):
        audited.audit()
    with pytest.raises(Unreachable):
        audited.audit()
    audited.fakes.target.create_topic(ROWS, 2)
    assert audited.audit().waiting == 0
    assert audited.total("count") == 10


def test_a_destination_that_lost_its_log_is_audited_from_the_start(audited: Audited) -> None:
    for _ in range(4):
        audited.copy(5)
    audited.audit()
    audited.fakes.target.log("t").truncate(12)
    report = audited.audit()
    lost = 20 - len(audited.fakes.copied("t"))
    assert [(one.verdict, one.records) for one in report.faults] == [(Verdict.MISSING, lost)]


def test_a_loss_at_the_destination_is_recognized_although_its_log_has_grown_again(audited: Audited) -> None:
    for _ in range(4):
        audited.copy(5)
    audited.audit()
    target = audited.fakes.target
    target.elect_uncleanly("t", 0, target.live_brokers()[0], 12)
    target.write("t", [(1_000, b"stranger", b"", [])] * 20)
    assert any(one.verdict is Verdict.MISSING for one in audited.audit().faults)


def test_a_share_of_the_windows_is_sampled() -> None:
    chosen = sum(is_sampled("orders", TopicPartition("t", n % 7), n * WINDOW_MS) for n in range(10_000))
    assert 400 < chosen < 600


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("guarantee", [Guarantee.AT_LEAST_ONCE, Guarantee.EFFECTIVELY_ONCE])
@pytest.mark.parametrize("seed", range(2))
def test_nothing_is_found_while_brokers_and_engine_fail(
    audited: Audited, mode: AuditMode, seed: int, guarantee: Guarantee
) -> None:
    random, fakes = Random(seed), audited.fakes
    may_repeat, policy = guarantee is Guarantee.AT_LEAST_ONCE, CopyPolicy(guarantee=guarantee)
    audited.lanes = replace(audited.lanes, may_repeat=may_repeat)
    fakes.restart("t", policy=policy)
    audited.restart()
    for _ in range(12):
        audited.write(random.randint(1, 4))
        if random.random() < 0.4:
            fakes.restart("t", policy=policy)  # with a new context
            audited.restart()
        fakes.run(random.choice([0.1, 0.5, 2.0]))
        report = audited.audit(mode)
        assert report.faults == ()
        copied = {one.value for one in fakes.copied("t")}
        waiting = [one.appended_ms for one in fakes.source.log("t").batches if b"%d" % one.last not in copied]
        assert report.through_ms is None or all(stamp >= report.through_ms for stamp in waiting)
    fakes.run_to("t", audited.written)
    report = audited.audit(mode)
    assert (report.faults, report.waiting) == ((), 0)
    assert report.through_ms is not None
    assert audited.total("count") == audited.written


def test_an_arrived_record_that_the_ledger_lacks_counts_as_a_record(audited: Audited) -> None:
    """After a destination loses records, the ledger can state a larger gap than there is."""
    audited.copy(10)
    fakes = audited.fakes
    key = LaneKey(GroupName("g-t"), PLACE)
    progress = fakes.context.run(fakes.context.progress(DESTINATION).load([key]))[key]
    assert progress is not None
    progress.offset_map = OffsetMap()
    progress.offset_map.extend([(0, 0, 4), (5, 5, 5)])
    tallies, resumes = [], 0
    for part in ((0, 4), (4, 10)):
        tallies.append(tally := WindowTally(WINDOW_MS, fakes.clock.now_ms()))
        job = replace(JOB, ranges={PLACE: part}, resumes={PLACE: resumes}, windows=tally)
        stored = StoredCopy(progress, 10)
        verdict = fakes.context.run(
            audit_partition(fakes.context, job, PLACE, stored, logs=((0, 10), (0, 10)))
        )
        assert verdict.verdict in (Verdict.COMPLETE, Verdict.LATE)
        resumes = verdict.target_range[1]
    counts = [one.numbers for tally in tallies for one in tally.windows.values()]
    assert [sum(column) for column in zip(*counts, strict=True)][:6] == [10, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("mode", MODES)
def test_two_auditors_of_a_lane_write_the_same_counts(audited: Audited, mode: AuditMode) -> None:
    """An instance that was frozen can continue after another has taken its lanes."""
    random, fakes = Random(44), audited.fakes
    auditors = [audited.auditor]
    audited.restart()
    auditors.append(audited.auditor)
    for number in range(6):
        audited.copy(random.randint(1, 5))
        fakes.clock.advance(WINDOW_MS / 1_000 if number == 3 else 1)
        audited.auditor = random.choice(auditors)
        assert audited.audit(mode).faults == ()
        assert audited.total("count") == audited.written
    assert len({row["bucket_start_ms"] for row in audited.rows()}) == len(audited.rows()) == 2


@pytest.mark.parametrize("mode", MODES)
def test_a_row_that_was_delayed_replaces_no_newer_one(
    audited: Audited, mode: AuditMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    audited.copy(5)
    audited.audit(mode)
    frozen = audited.auditor
    audited.copy(5)

    async def frozen_here(*_: object) -> None:
        raise Unreachable("frozen before the rows are written")

    with monkeypatch.context() as patch:
        patch.setattr(Auditor, "_send", frozen_here)
        with pytest.raises(Unreachable):
            audited.audit(mode)
    audited.restart()
    audited.fakes.clock.advance(1)
    audited.copy(5)
    audited.audit(mode)
    audited.auditor = frozen
    assert audited.audit(mode).faults == ()
    assert audited.total("count") == 15


@pytest.mark.parametrize("mode", MODES)
def test_records_that_wait_for_longer_than_the_lateness_make_their_window_late(
    audited: Audited, mode: AuditMode
) -> None:
    audited.lanes = replace(audited.lanes, lateness_ms=60_000)
    audited.copy(5)
    audited.audit(mode)
    audited.write(3)
    assert audited.audit(mode).late == 0
    audited.fakes.clock.advance(61)
    report = audited.audit(mode)
    assert (report.late, report.faults) == (3, ())
    assert [(row["verdict"], row["late"]) for row in audited.rows()] == [(Verdict.LATE.value, 3)]
    audited.restart()
    audited.fakes.run_to("t", audited.written)
    assert audited.audit(mode).late == 0
    assert [(row["verdict"], row["late"], row["count"]) for row in audited.rows()] == [
        (Verdict.COMPLETE.value, 0, 8)
    ]


def test_the_payload_of_a_window_is_counted_as_stored(audited: Audited) -> None:
    audited.copy(10)
    audited.audit(AuditMode.COUNTS)
    assert audited.total("payload_bytes") == 0
    audited.copy(10)
    audited.audit(AuditMode.FULL)
    stored = sum(len(one.data) - HEADER_SIZE for one in audited.fakes.source.log("t").batches)
    assert 0 < audited.total("payload_bytes") < stored


@pytest.mark.parametrize("guarantee", [Guarantee.EFFECTIVELY_ONCE, Guarantee.EXACTLY_ONCE])
@pytest.mark.parametrize("mode", MODES)
def test_records_that_are_copied_during_a_run_are_no_difference(
    audited: Audited, mode: AuditMode, guarantee: Guarantee
) -> None:
    fakes = audited.fakes
    is_exact = guarantee is Guarantee.EXACTLY_ONCE
    fakes.restart("t", policy=CopyPolicy(guarantee=guarantee))
    audited.restart()
    lanes = replace(audited.lanes, mode=mode, has_markers=is_exact)
    for _ in range(3):
        fakes.target.faults.plant(LIST_OFFSETS, Delay(3.0, applied=True), times=2)
        run = fakes.context.loop.spawn(audited.auditor.run_once(lanes))
        while not run.is_done:
            audited.write(1)
            fakes.run(0.2)
        run.result()
        assert audited.auditor.reports[lanes.name][PLACE].faults == ()


def test_records_that_the_destination_had_before_are_not_foreign(audited: Audited) -> None:
    audited.fakes.target.write("t", [(1_000, b"before", b"%d" % n, []) for n in range(6)])
    audited.fakes.run(5)
    assert audited.audit().faults == ()
    audited.copy(3)
    assert audited.audit().faults == ()
    assert audited.total("count") == 3


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("number", [2, 30])
def test_a_source_topic_that_was_created_again_is_no_difference(
    audited: Audited, mode: AuditMode, number: int
) -> None:
    fakes = audited.fakes
    fakes.restart("t", policy=CopyPolicy(on_loss=OnLoss.CONTINUE))
    audited.restart()
    audited.copy(10)
    audited.audit(mode)
    audited.copy(10)
    fakes.source.recreate_topic("t")
    audited.written = 0
    audited.write(number)
    assert audited.audit(mode).faults == ()
    fakes.run_until(lambda: len(fakes.copied("t")) >= 20 + number, "the new topic is copied")
    fakes.run_to("t", number)
    fakes.clock.advance(1)
    audited.audit(mode)
    report = audited.audit(mode)
    assert report.faults == ()
    assert report.through_ms is not None


@pytest.mark.parametrize("mode", MODES)
def test_copies_whose_origins_were_deleted_before_the_audit_are_no_difference(
    audited: Audited, mode: AuditMode
) -> None:
    audited.copy(5)
    audited.audit(mode)
    audited.copy(10)
    audited.fakes.source.log("t").delete_before(9)
    assert audited.audit(mode).faults == ()
    audited.copy(2)
    assert audited.audit(mode).faults == ()


@pytest.mark.parametrize("mode", MODES)
def test_copies_of_a_former_owner_beyond_the_checkpoint_of_the_present_one_are_duplicates(
    audited: Audited, mode: AuditMode
) -> None:
    """The former owner was killed before its checkpoint; its successor copies the records again."""
    fakes = audited.fakes
    audited.lanes = replace(audited.lanes, may_repeat=True)
    policy = CopyPolicy(guarantee=Guarantee.AT_LEAST_ONCE)
    fakes.restart("t", policy=policy)
    audited.restart()
    audited.copy(5)
    audited.audit(mode)
    fakes.target.write("t", fakes.records(5, 10))
    audited.copy(3)
    fakes.crash()
    fakes.new_engine()
    audited.restart()
    audited.write(7)
    assert {fault.verdict for fault in audited.audit(mode).faults} <= {Verdict.DUPLICATED}
    assert audited.total("foreign") == 0


@pytest.mark.parametrize("mode", MODES)
def test_of_an_unchanged_lane_only_the_ends_are_read(audited: Audited, mode: AuditMode) -> None:
    audited.copy(5)
    audited.audit(mode)
    before = audited.audit(mode)
    faults = audited.fakes.target.faults
    for api in (PRODUCE, FETCH):
        faults.plant(api, Drop(), times=None)
    for _ in range(3):
        audited.fakes.clock.advance(60)
        report = audited.audit(mode)
    assert faults.taken == 0
    assert (report.waiting, report.faults, report.problem) == (0, (), "")
    assert (report.through_ms or 0) >= (before.through_ms or 0) + 120_000


@pytest.mark.parametrize("mode", MODES)
def test_a_new_topic_that_is_as_long_as_the_former_does_not_advance_the_watermark(
    audited: Audited, mode: AuditMode
) -> None:
    audited.copy(5)
    audited.audit(mode)
    before = audited.audit(mode)
    audited.fakes.source.recreate_topic("t")
    audited.written = 0
    audited.write(5)
    audited.fakes.clock.advance(60)
    assert audited.audit(mode).through_ms == before.through_ms


@pytest.mark.parametrize("mode", MODES)
def test_a_loss_of_an_unchanged_lane_is_found(audited: Audited, mode: AuditMode) -> None:
    for _ in range(5):
        audited.copy(1)
    audited.audit(mode)
    audited.audit(mode)
    audited.fakes.target.log("t").truncate(3)
    report = audited.audit(mode)
    assert [(one.verdict, one.records) for one in report.faults] == [(Verdict.MISSING, 2)]


@pytest.mark.parametrize("mode", MODES)
def test_lanes_are_audited_beside_one_whose_progress_is_in_an_offline_partition(
    fakes: MirroredFakes, mode: AuditMode
) -> None:
    fakes.make_topic("t", 6)
    fakes.target.create_topic(ROWS, 2)
    places = [TopicPartition("t", number) for number in range(6)]
    lanes = AuditedLanes(DatastreamName("t"), JOB, mode, places)
    for place in places:
        fakes.write("t", 0, 10, place.partition)
    fakes.start("t", 6)
    for place in places:
        fakes.run_to("t", 10, place.partition)
    fakes.run(5)  # until every checkpoint is stored
    auditor = Auditor(fakes.context, AuditOptions("one", DESTINATION, ROWS, WINDOW_MS, 0, 10**9))
    log = fakes.context.progress(DESTINATION)
    partition_of = {place: log.partition_of(main_key(LaneKey(GroupName("g-t"), place))) for place in places}
    offline = partition_of[PLACE]

    def audited() -> tuple[set[TopicPartition], set[str]]:
        """Audit until there is no more; return the lanes with a watermark, and the problems of the others."""
        while fakes.context.run(auditor.run_once(lanes)):
            pass
        reports = auditor.reports[lanes.name]
        done = {place for place, report in reports.items() if report.through_ms is not None}
        return done, {report.problem for place, report in reports.items() if place not in done}

    fakes.target.move_leader(log.topic, offline, NOBODY)
    fakes.target.server.changed()
    done, problems = audited()
    assert done == {place for place in places if partition_of[place] != offline} != set()
    assert all(f"{log.topic}-{offline} of " in problem for problem in problems)
    fakes.target.move_leader(log.topic, offline, 1)
    fakes.target.server.changed()
    assert audited() == (set(places), set())
