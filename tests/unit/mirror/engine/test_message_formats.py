"""Test messages of formats 0 and 1, and records without timestamps; in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from mirror.model.datastreams.datastream import StartPosition
from mirror.model.datastreams.policy import CopyPath, CopyPolicy
from tests.fakes.broker import batches
from tests.fakes.broker.faults import Code, HandledRequest
from tests.fakes.broker.mirrored import MirroredFakes

LIST_OFFSETS, UNSUPPORTED_FOR_MESSAGE_FORMAT = 2, 43
NONE, GZIP, LZ4, ZSTD = 0, 1, 3, 4
FORMATS = [(0, NONE), (0, GZIP), (1, NONE), (1, GZIP), (1, LZ4)]
NO_TIME = -1


def write_old(fakes: MirroredFakes, magic: int, codec: int, count: int) -> None:
    """Append messages of an old format to the source: one with all records if compressed, else one each."""
    log = fakes.source.log("t")
    parts = 1 if codec else count
    for _ in range(parts):
        numbers = range(log.end, log.end + count // parts)
        contents = [(b"key", None if number % 3 == 2 else b"%d" % number) for number in numbers]
        fakes.source.append("t", batches.old_messages(contents, log.end, magic, codec))


@pytest.mark.parametrize("path", CopyPath)
@pytest.mark.parametrize(("magic", "codec"), FORMATS)
def test_old_formats_are_written_in_the_current_one(
    fakes: MirroredFakes, magic: int, codec: int, path: CopyPath
) -> None:
    fakes.make_topic("t")
    write_old(fakes, magic, codec, 6)
    fakes.write("t", 6, 4)
    write_old(fakes, magic, codec, 6)
    fakes.start("t", policy=CopyPolicy(path=path))
    fakes.run_to("t", 16)
    fakes.check("t")
    assert len(fakes.copied("t")) == 16
    assert all(batches.magic_of(batch.data) == 2 for batch in fakes.target.log("t").batches)


@pytest.mark.parametrize(("magic", "codec"), FORMATS)
def test_old_formats_are_compared_with_their_copies_after_a_crash(
    new_fakes: Callable[..., MirroredFakes], magic: int, codec: int
) -> None:
    fakes = new_fakes(checkpoint_seconds=1_000.0)
    fakes.make_topic("t")
    write_old(fakes, magic, codec, 9)
    fakes.start("t")
    fakes.run_until(lambda: len(fakes.copied("t")) == 9, "the records are copied")
    fakes.restart("t")
    write_old(fakes, magic, codec, 3)
    fakes.run_until(lambda: fakes.lane("t").checkpoint == 12, "the lane continues")
    fakes.check("t")
    assert len(fakes.copied("t")) == 12


def test_a_start_by_time_in_a_topic_without_times_pauses_with_the_reason(fakes: MirroredFakes) -> None:
    fakes.make_topic("t")
    write_old(fakes, 0, NONE, 3)
    fakes.source.faults.plant(
        LIST_OFFSETS, Code(UNSUPPORTED_FOR_MESSAGE_FORMAT), times=None, fits=asks_for_a_time
    )
    fakes.start("t", start=StartPosition.TIMESTAMP, start_ms=1_000)
    reason = fakes.run_until_paused("t")
    assert "UNSUPPORTED_FOR_MESSAGE_FORMAT (43)" in reason
    assert "start at earliest" in reason
    assert "no timestamps" in reason


def asks_for_a_time(asked: HandledRequest) -> bool:
    return any(one.timestamp >= 0 for topic in asked.message.topics for one in topic.partitions)


STAMPS: Sequence[Sequence[int]] = [
    (NO_TIME,),
    (NO_TIME, 5_000),
    (5_000, NO_TIME),
    (NO_TIME, NO_TIME, NO_TIME),
    (7_000, 5_000, NO_TIME, 6_000),
    (5_000,),
]


@pytest.mark.parametrize("first", [0, 1, 2])
@pytest.mark.parametrize("path", CopyPath)
@pytest.mark.parametrize("codec", [NONE, LZ4, ZSTD])
def test_records_without_timestamps_stay_without(
    fakes: MirroredFakes, codec: int, path: CopyPath, first: int
) -> None:
    """From offset 2 on, the first batch to copy is trimmed."""
    fakes.make_topic("t")
    for stamps in STAMPS:
        fakes.source.write("t", [(stamp, b"k", b"v", []) for stamp in stamps], codec=codec)
    fakes.source.log("t").delete_before(first)
    fakes.start("t", policy=CopyPolicy(path=path))
    fakes.run_to("t", 13)
    fakes.check("t")
    stamps = [stamp for batch in STAMPS for stamp in batch]
    assert [record.timestamp for record in fakes.copied("t")] == stamps[first:]
