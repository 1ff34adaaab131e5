"""The last good result survives a restart; a damaged file counts as missing."""

from __future__ import annotations

from pathlib import Path

from mirror.model.load import LoadLevel, LoadReport, PartitionLoad, RateSource
from mirror.model.topics import TopicPartition
from pmp.loads.last_known import WRITE_EVERY_MS, CachedReport, LastKnown

REPORT = LoadReport(
    loads={
        TopicPartition("a.b-c", 3): PartitionLoad(1.5, None, LoadLevel.PARTITION, RateSource.HELD, 55),
        TopicPartition("d", 0): PartitionLoad(2.5, 9.0, LoadLevel.PARTITION, RateSource.MEAN),
    },
    provider="pinot",
    measured_at_ms=77,
)
NAME = "host:9092/odd name"


def test_an_answer_is_there_after_a_restart(tmp_path: Path) -> None:
    LastKnown(tmp_path / "deep").remember(NAME, REPORT, 100)
    found = LastKnown(tmp_path / "deep").recall(NAME)
    assert found is not None
    assert (found.report, found.answered_ms) == (REPORT, 100)
    assert LastKnown(tmp_path / "deep").recall("another") is None
    assert LastKnown(None).recall(NAME) is None


def test_the_disk_is_not_written_at_every_answer(tmp_path: Path) -> None:
    store = LastKnown(tmp_path)
    for moment in (100_000, 100_001, 100_000 + WRITE_EVERY_MS - 1):
        store.remember(NAME, REPORT, moment)
    assert store.recall(NAME) == CachedReport(REPORT, 100_000 + WRITE_EVERY_MS - 1)
    assert LastKnown(tmp_path).recall(NAME) == CachedReport(REPORT, 100_000)


def test_the_disk_is_written_again_after_the_clock_was_set_back(tmp_path: Path) -> None:
    store = LastKnown(tmp_path)
    for moment in (900_000_000, 100_000):
        store.remember(NAME, REPORT, moment)
    assert LastKnown(tmp_path).recall(NAME) == CachedReport(REPORT, 100_000)


def test_a_file_with_any_wrong_byte_counts_as_missing_or_is_read(tmp_path: Path) -> None:
    LastKnown(tmp_path).remember(NAME, REPORT, 100_000)
    (file,) = tmp_path.iterdir()
    whole = file.read_bytes()
    for at in range(len(whole)):
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        found = LastKnown(tmp_path).recall(NAME)
        assert found is None or found.answered_ms == 100_000


def test_a_spoilt_file_and_an_unwritable_folder_harm_nothing(tmp_path: Path) -> None:
    LastKnown(tmp_path).remember(NAME, REPORT, 100_000)
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:-9])
    assert LastKnown(tmp_path).recall(NAME) is None
    (tmp_path / "blocked").write_text("a file where the folder should be")
    store = LastKnown(tmp_path / "blocked")
    store.remember(NAME, REPORT, 100_000)
    assert store.recall(NAME) is not None
