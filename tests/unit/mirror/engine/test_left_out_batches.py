"""Test skipped, dead-lettered and unopened batches across restarts and changes of the source."""

from __future__ import annotations

import pytest

from mirror.lane.ledger import OffsetClass
from mirror.lane.lifecycle import LaneState
from mirror.model.datastreams.datastream import StartPosition
from mirror.model.datastreams.policy import CopyPath, CopyPolicy, Guarantee, OnLoss, OnRejection
from tests.fakes.broker import batches
from tests.fakes.broker.accounts import check_accounts, letters_of
from tests.fakes.broker.batches import Content
from tests.fakes.broker.faults import Drop, HandledRequest
from tests.fakes.broker.mirrored import MirroredFakes

PRODUCE, FETCH = 0, 1
GZIP, ZSTD = 1, 4
LEAVING = [OnRejection.SKIP, OnRejection.DEAD_LETTER]
SAFE = [Guarantee.EFFECTIVELY_ONCE, Guarantee.EXACTLY_ONCE]


def is_checkpoint(asked: HandledRequest) -> bool:
    """Return whether the request stores progress beyond the lane's start."""
    parts = [bytes(part.records) for topic in asked.message.topic_data for part in topic.partition_data]
    return any(b"g-t/t/" in part and b'"next_offset":0' not in part for part in parts)


def write_with_bad(fakes: MirroredFakes, count: int = 1) -> None:
    """Write three good batches, `count` undecodable ones and three good ones, of four records each."""
    for number in range(6 + count):
        data = batches.build(fakes.records(4 * number, 4), codec=GZIP)
        fakes.source.append("t", batches.undecodable(data) if 3 <= number < 3 + count else data)


@pytest.mark.parametrize("path", [CopyPath.AUTO, CopyPath.PASSTHROUGH, CopyPath.RECORD])
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("policy", LEAVING)
def test_what_was_sent_behind_a_batch_that_was_left_out_is_found_by_the_next_owner(
    fakes: MirroredFakes, policy: OnRejection, count: int, path: CopyPath
) -> None:
    """The former owner is killed before it has stored any progress."""
    chosen = CopyPolicy(on_rejection=policy, path=path)
    fakes.make_topic("t")
    write_with_bad(fakes, count)
    fakes.target.faults.plant(PRODUCE, Drop(), times=None, fits=is_checkpoint)
    fakes.start("t", policy=chosen)
    fakes.run_until(lambda: len(fakes.copied("t")) == 24, "all good batches are copied")
    assert fakes.lane("t").checkpoint == 24 + 4 * count
    fakes.target.faults.clear()
    fakes.restart("t", policy=chosen)
    fakes.run_to("t", 24 + 4 * count)
    fakes.check_contents("t")
    check_accounts(fakes, "t")


@pytest.mark.deep
@pytest.mark.parametrize("policy", OnRejection)
def test_a_batch_that_only_a_destination_can_read_is_found_as_a_whole(
    fakes: MirroredFakes, policy: OnRejection
) -> None:
    """It passes unopened and is not opened for the comparison either."""
    fakes.make_topic("t")
    for number in range(4):
        fakes.write("t", 4 * number, 4, codec=ZSTD)
    records: list[Content] = [(fakes.clock.now_ms(), b"key", bytes(17_000_000), [])] * 4
    fakes.source.write("t", records, codec=ZSTD)
    fakes.write("t", 20, 4)
    chosen = CopyPolicy(on_rejection=policy, path=CopyPath.PASSTHROUGH)
    fakes.target.faults.plant(PRODUCE, Drop(), times=None, fits=is_checkpoint)
    fakes.start("t", policy=chosen)
    fakes.run_until(lambda: fakes.target.log("t").end == 24, "all batches are copied")
    fakes.target.faults.clear()
    fakes.restart("t", policy=chosen)
    fakes.run_to("t", 24)
    assert fakes.target.log("t").end - 1 == 24, "only the marker of the fence follows"
    assert fakes.lane("t").progress.ledger.by_class()["mirrored"] == 24


@pytest.mark.parametrize("guarantee", Guarantee)
def test_a_pause_in_front_of_a_batch_delivers_what_lies_before_it_after_a_crash_too(
    fakes: MirroredFakes, guarantee: Guarantee
) -> None:
    chosen = CopyPolicy(guarantee=guarantee, path=CopyPath.RECORD)
    fakes.make_topic("t")
    write_with_bad(fakes)
    fakes.target.faults.plant(PRODUCE, Drop(), times=None, fits=lambda asked: not is_checkpoint(asked))
    fakes.start("t", policy=chosen)
    fakes.run(1)
    fakes.target.faults.clear()
    fakes.restart("t", policy=chosen)
    fakes.run_until(
        lambda: fakes.lane("t").checkpoint == 12 and fakes.pauses(fakes.lane("t").key), "the lane pauses"
    )
    assert fakes.numbers("t") == list(range(12))


@pytest.mark.parametrize("guarantee", SAFE)
@pytest.mark.parametrize("policy", LEAVING)
@pytest.mark.parametrize("path", [CopyPath.AUTO, CopyPath.RECORD])
def test_what_was_left_out_of_a_topic_is_copied_of_the_one_that_takes_its_place(
    fakes: MirroredFakes, policy: OnRejection, path: CopyPath, guarantee: Guarantee
) -> None:
    """The excluded offsets belong to the former log."""
    fakes.make_topic("t")
    write_with_bad(fakes)
    chosen = CopyPolicy(guarantee=guarantee, on_rejection=policy, on_loss=OnLoss.CONTINUE, path=path)
    fakes.start("t", policy=chosen)
    fakes.run_to("t", 28)
    fakes.source.recreate_topic("t")
    for first in range(100, 128, 4):
        fakes.write("t", first, 4, codec=GZIP)
    fakes.run_until(lambda: fakes.lane("t").progress.life == 1, "the new topic is known")
    fakes.run_to("t", 28)
    assert fakes.numbers("t") == [*range(12), *range(16, 28), *range(100, 128)]


def test_refused_records_of_a_topic_are_copied_of_the_one_that_takes_its_place(fakes: MirroredFakes) -> None:
    fakes.make_topic("t", cleanup_policy="compact")
    now_ms = fakes.clock.now_ms()
    fakes.source.write("t", [(now_ms, b"k" if n != 3 else None, b"%d" % n, []) for n in range(8)])
    fakes.start("t", policy=CopyPolicy(on_rejection=OnRejection.DEAD_LETTER, on_loss=OnLoss.CONTINUE))
    fakes.run_to("t", 8)
    assert [letter.offset for letter in letters_of(fakes, "t")] == [3]
    fakes.source.recreate_topic("t")
    fakes.write("t", 100, 8)
    fakes.run_until(lambda: fakes.lane("t").progress.life == 1, "the new topic is known")
    fakes.run_to("t", 8)
    assert fakes.numbers("t") == [0, 1, 2, 4, 5, 6, 7, *range(100, 108)]


@pytest.mark.parametrize("guarantee", Guarantee)
def test_a_batch_of_one_record_that_cannot_be_decoded_goes_to_the_dead_letters_once(
    fakes: MirroredFakes, guarantee: Guarantee
) -> None:
    fakes.make_topic("t")
    for number in range(5):
        data = batches.build(fakes.records(number, 1), codec=GZIP)
        fakes.source.append("t", batches.undecodable(data) if number == 2 else data)
    fakes.start("t", policy=CopyPolicy(guarantee=guarantee, on_rejection=OnRejection.DEAD_LETTER))
    fakes.run_to("t", 5)
    (letter,) = letters_of(fakes, "t")
    assert (letter.offset, letter.value) == (2, fakes.source.log("t").batches[2].data)
    assert fakes.numbers("t") == [0, 1, 3, 4]


@pytest.mark.parametrize("guarantee", Guarantee)
def test_a_batch_that_cannot_be_opened_beside_one_that_was_refused_passes_as_it_is(
    new_fakes: type[MirroredFakes], guarantee: Guarantee
) -> None:
    """Only the rejected batch is opened."""
    fakes = new_fakes(options={"opened_batch_bytes": 20_000})
    fakes.make_topic("t", cleanup_policy="compact")
    now_ms = fakes.clock.now_ms()
    fakes.source.write("t", [(now_ms, b"k", bytes(40_000), [])] * 2, codec=GZIP)
    fakes.source.write("t", [(now_ms, None, b"refused", []), (now_ms, b"k", b"2", [])], codec=GZIP)
    fakes.source.write("t", [(now_ms, b"k", bytes(40_000), [])] * 2, codec=GZIP)
    fakes.start("t", policy=CopyPolicy(guarantee=guarantee, on_rejection=OnRejection.SKIP))
    fakes.run_to("t", 6)
    assert fakes.lane("t").progress.ledger.by_class()["filtered"] == 1
    assert len(fakes.copied("t")) == 5


def write_new_history(fakes: MirroredFakes) -> list[int]:
    """Write an undecodable batch between two good ones and return the numbers of the good records."""
    for first in range(100, 112, 4):
        data = batches.build(fakes.records(first, 4), codec=GZIP)
        fakes.source.append("t", batches.undecodable(data) if first == 104 else data)
    return [*range(100, 104), *range(108, 112)]


@pytest.mark.parametrize("policy", LEAVING)
@pytest.mark.parametrize("path", [CopyPath.AUTO, CopyPath.RECORD])
def test_the_first_transaction_of_a_new_topic_leaves_a_batch_out(
    fakes: MirroredFakes, policy: OnRejection, path: CopyPath
) -> None:
    """Each abort resets the lane to the progress of the former topic."""
    chosen = CopyPolicy(
        guarantee=Guarantee.EXACTLY_ONCE, on_rejection=policy, on_loss=OnLoss.CONTINUE, path=path
    )
    fakes.make_topic("t")
    write_with_bad(fakes)
    fakes.start("t", policy=chosen)
    fakes.run_to("t", 28)
    fakes.source.recreate_topic("t")
    good = write_new_history(fakes)
    fakes.run_until(lambda: fakes.lane("t").progress.life == 1, "the new topic is known")
    fakes.run_to("t", 12)
    assert fakes.numbers("t") == [*range(12), *range(16, 28), *good]
    check_accounts(fakes, "t")


@pytest.mark.parametrize("policy", LEAVING)
def test_the_first_transaction_of_a_new_history_leaves_a_batch_out(
    fakes: MirroredFakes, policy: OnRejection
) -> None:
    """Each abort resets the lane to a checkpoint of the former history, which is beyond the batch."""
    chosen = CopyPolicy(guarantee=Guarantee.EXACTLY_ONCE, on_rejection=policy, on_loss=OnLoss.CONTINUE)
    fakes.make_topic("t")
    for first in range(0, 40, 4):
        fakes.write("t", first, 4)
    fakes.start("t", policy=chosen)
    fakes.run_to("t", 40)
    fakes.source.elect_uncleanly("t", 0, 2, 20)
    good = write_new_history(fakes)
    fakes.run_until(lambda: fakes.lane("t").progress.life == 1, "the new history is followed")
    fakes.run_to("t", 32)
    assert fakes.numbers("t") == [*range(40), *good]
    assert fakes.lane("t").progress.life == 1


@pytest.mark.parametrize("policy", LEAVING)
def test_the_first_transaction_after_a_restart_leaves_a_batch_out(
    fakes: MirroredFakes, policy: OnRejection
) -> None:
    """Each abort resets the lane to its progress before the restart."""
    chosen = CopyPolicy(guarantee=Guarantee.EXACTLY_ONCE, on_rejection=policy)
    fakes.make_topic("t")
    good = write_new_history(fakes)
    fakes.start("t", policy=chosen)
    fakes.run_to("t", 12)
    fakes.restart("t", policy=chosen, restart_ms=1_000, start=StartPosition.EARLIEST)
    fakes.run_until(lambda: len(fakes.numbers("t")) > len(good), "the lane copies again")
    fakes.run_to("t", 12)
    assert fakes.numbers("t") == [*good, *good]


@pytest.mark.parametrize("guarantee", Guarantee)
@pytest.mark.parametrize("policy", LEAVING)
def test_the_record_in_the_place_of_one_that_was_left_out_is_copied(
    fakes: MirroredFakes, policy: OnRejection, guarantee: Guarantee
) -> None:
    """An unclean election loses the batch before the lane has left it out; the next batch has its offsets."""
    chosen = CopyPolicy(guarantee=guarantee, on_rejection=policy, on_loss=OnLoss.CONTINUE)
    fakes.make_topic("t")
    fakes.write("t", 0, 4)
    fakes.start("t", policy=chosen)
    fakes.run_to("t", 4)
    fakes.source.faults.plant(
        FETCH, Drop(), times=None, fits=lambda _asked: 7 in fakes.lane("t").read.rules.unopened
    )
    fakes.source.append("t", batches.undecodable(batches.build(fakes.records(4, 4), codec=GZIP)))
    fakes.run_until(lambda: 7 in fakes.lane("t").read.rules.unopened, "the batch is to be left out")
    assert fakes.lane("t").checkpoint == 4
    fakes.source.elect_uncleanly("t", 0, 2, 4)
    fakes.write("t", 100, 4, codec=GZIP)
    fakes.source.faults.clear()
    fakes.run_to("t", 8)
    assert fakes.numbers("t") == [*range(4), *range(100, 104)]
    assert fakes.lane("t").progress.ledger.total(OffsetClass.MIRRORED) == 8


@pytest.mark.parametrize("guarantee", Guarantee)
def test_a_lane_tries_again_that_let_go_of_what_lies_before_a_batch_that_cannot_be_opened(
    fakes: MirroredFakes, guarantee: Guarantee
) -> None:
    """The destination freezes before it accepts the good batches, and the lane releases their memory."""
    chosen = CopyPolicy(guarantee=guarantee, path=CopyPath.RECORD)
    fakes.make_topic("t")
    fakes.start("t", policy=chosen)
    fakes.run(1.0)
    for broker in fakes.target.brokers:
        fakes.target.freeze(broker)
    write_with_bad(fakes)
    fakes.run(20)
    for broker in fakes.target.brokers:
        fakes.target.thaw(broker)
    fakes.run_until(lambda: fakes.lane("t").state is LaneState.PAUSED, "the lane pauses")
    assert fakes.numbers("t") == list(range(12))


def test_what_was_read_during_a_commit_is_sent_before_the_pause_behind_it(fakes: MirroredFakes) -> None:
    fakes.make_topic("t")
    fakes.target.coordinator.marker_seconds = 1.0
    fakes.start("t", policy=CopyPolicy(guarantee=Guarantee.EXACTLY_ONCE, path=CopyPath.RECORD))
    fakes.write("t", 100, 4)
    fakes.run_until(lambda: fakes.lane("t").ownership.is_in_transaction, "its first transaction is open")
    fakes.run_until(lambda: fakes.lane("t").ownership.is_held, "the transaction ends")
    write_with_bad(fakes)
    fakes.run_until(lambda: fakes.lane("t").state is LaneState.PAUSED, "the lane pauses")
    fakes.run(2 * fakes.target.coordinator.marker_seconds)  # its last marker is written
    assert fakes.numbers("t") == [*range(100, 104), *range(12)]
