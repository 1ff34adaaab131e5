"""Test landed files: death of the writer, a full disk, damage, and a second owner."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import fastavro
import pytest

from mirror.adapters.system_clock import SystemClock
from mirror.client.event_loop import Loop
from mirror.errors import ConfigError, CorruptData, DataLossDetected, Fenced, Unreachable
from mirror.model.topics import TopicPartition
from mirror.protocol.batches.records import Record
from mirror.replication.connector import Position, is_connector, open_sink, open_source
from mirror.replication.connectors.files import FileSink, FileSource
from mirror.replication.connectors.landing_folder import LOCK, POSITION, files_in, folder_of, part_of
from tests.contract.connectors import plain

T = TypeVar("T")
PLACE = TopicPartition("orders", 3)


class Landing:
    """A folder, a loop, and the sinks that were opened."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = folder_of(root, PLACE)
        self.loop = Loop(SystemClock())
        self.opened: list[FileSink] = []

    def sink(self) -> FileSink:
        sink = open_sink(f"file:{self.root}")
        assert isinstance(sink, FileSink)
        self.opened.append(sink)
        return sink

    def done(self, steps: Coroutine[Any, Any, T]) -> T:
        promise = self.loop.spawn(steps)
        while not promise.is_done:
            self.loop.run_once(1)
        return promise.result()

    def land(self, sink: FileSink, first: int, end: int) -> None:
        """Write and commit one file."""
        self.done(sink.write(PLACE, plain(first, end)))
        self.done(sink.commit(PLACE, Position(end, "o")))

    def landed(self) -> list[int]:
        """Return the offsets that a reader sees."""
        source = FileSource(self.root)
        bounds = self.done(source.bounds([PLACE]))[PLACE]

        async def read() -> list[int]:
            found = source.read(PLACE, bounds.first, bounds.end)
            return [record.offset async for portion in found for record in portion.records]

        return self.done(read())

    @property
    def files(self) -> list[str]:
        """Names of complete files."""
        return [file.path.name[:41] for file in files_in(self.folder, "avro")]


@pytest.fixture
def landing(tmp_path: Path) -> Iterator[Landing]:
    made = Landing(tmp_path / "landing")
    yield made
    for sink in made.opened:
        sink.close()
    made.loop.close()


def begun(landing: Landing) -> FileSink:
    """Return a sink with offsets 0 to 9 committed and 10 to 14 written."""
    sink = landing.sink()
    landing.done(sink.take(PLACE))
    landing.done(sink.commit(PLACE, Position(0, "o")))
    landing.land(sink, 0, 10)
    landing.done(sink.write(PLACE, plain(10, 15)))
    return sink


def before_the_position(landing: Landing, sink: FileSink) -> int:
    """Stop before the position includes the part, and return the offset to resume from."""
    (landing.folder / (POSITION + ".new")).write_text('{"next')
    return 10


def behind_the_position(landing: Landing, sink: FileSink) -> int:
    """Stop when the position includes the part, but the part has not been renamed."""
    landing.done(sink.commit(PLACE, Position(15, "o")))
    newest = files_in(landing.folder, "avro")[-1].path
    newest.rename(part_of(landing.folder, 10))
    return 15


def behind_the_name(landing: Landing, sink: FileSink) -> int:
    """Stop after the commit is complete."""
    landing.done(sink.commit(PLACE, Position(15, "o")))
    return 15


def taken_away(landing: Landing, sink: FileSink) -> int:
    """Stop after the commit is complete and a reader has removed the files."""
    landing.done(sink.commit(PLACE, Position(15, "o")))
    for file in files_in(landing.folder, "avro"):
        file.path.unlink()
    return 15


def without_position(landing: Landing, sink: FileSink) -> int:
    """Lose the position, as in a copy to another disk without dot files."""
    landing.done(sink.commit(PLACE, Position(15, "o")))
    (landing.folder / POSITION).unlink()
    return 15


@pytest.mark.parametrize(
    "moment", [before_the_position, behind_the_position, behind_the_name, taken_away, without_position]
)
def test_a_process_that_dies_neither_loses_nor_doubles(
    landing: Landing, moment: Callable[[Landing, FileSink], int]
) -> None:
    first = begun(landing)
    expected = moment(landing, first)
    part = part_of(landing.folder, 10)
    content = part.read_bytes() if part.exists() else None
    first.close()
    if content is not None:
        part.write_bytes(content)  # `close` removes it, SIGKILL does not
    second = landing.sink()
    position = landing.done(second.take(PLACE))
    assert position is not None
    assert position.next_offset == expected
    landing.land(second, expected, 20)
    seen = landing.landed()
    assert seen == list(range(seen[0], 20))
    assert seen[0] == (15 if moment is taken_away else 0)
    assert not part.exists()


def test_files_are_named_by_the_offsets_that_they_account_for(landing: Landing) -> None:
    sink = landing.sink()
    landing.done(sink.take(PLACE))
    landing.done(sink.commit(PLACE, Position(5, "o")))
    landing.land(sink, 7, 9)
    landing.done(sink.commit(PLACE, Position(20, "o")))  # offsets without a record
    landing.land(sink, 20, 22)
    assert landing.files == [f"{5:020}-{9:020}", f"{9:020}-{22:020}"]
    assert landing.landed() == [7, 8, 20, 21]
    assert landing.folder == landing.root / "topic=orders" / "partition=3"


def test_other_tools_read_what_has_landed(landing: Landing) -> None:
    sink = landing.sink()
    landing.done(sink.take(PLACE))
    landing.done(sink.write(PLACE, [Record(0, 1_764_000_000_000, b"k", None, ((b"h", b"1"),))]))
    landing.done(sink.commit(PLACE, Position(1)))
    (file,) = files_in(landing.folder, "avro")
    with file.path.open("rb") as content:
        (row,) = fastavro.reader(content)
    assert isinstance(row, dict)
    assert row.pop("timestamp").isoformat() == "2025-11-24T16:00:00+00:00"
    assert row == {"offset": 0, "key": b"k", "value": None, "headers": [{"key": b"h", "value": b"1"}]}


def test_timestamps_that_no_calendar_has_come_back(landing: Landing) -> None:
    records = [Record(n, stamp, None, b"") for n, stamp in enumerate((-1, 2**63 - 1, 0))]
    sink = landing.sink()
    landing.done(sink.take(PLACE))
    landing.done(sink.write(PLACE, records))
    landing.done(sink.commit(PLACE, Position(3)))
    source = FileSource(landing.root)

    async def read() -> list[Record]:
        return [one async for part in source.read(PLACE, 0, 3) for one in part.records]

    assert landing.done(read()) == records


def test_a_full_disk_is_said_and_nothing_is_lost(landing: Landing) -> None:
    sink = begun(landing)
    landing.done(sink.release(PLACE))
    landing.done(sink.take(PLACE))
    part_of(landing.folder, 10).symlink_to("/dev/full")
    with pytest.raises(Unreachable, match=r"space"):
        landing.land(sink, 10, 5000)
    landing.done(sink.release(PLACE))
    assert landing.landed() == list(range(10))
    assert landing.done(sink.take(PLACE)) == Position(10, "o")
    landing.land(sink, 10, 12)
    assert landing.landed() == list(range(12))


def test_a_folder_has_one_owner_as_long_as_its_process_lives(landing: Landing) -> None:
    first, second = begun(landing), landing.sink()
    with pytest.raises(Fenced, match=re.escape(str(landing.folder))):
        landing.done(second.take(PLACE))
    landing.done(first.commit(PLACE, Position(15, "o")))
    first.close()
    assert landing.done(second.take(PLACE)) == Position(15, "o")


def test_an_owner_whose_folder_was_replaced_commits_nothing(landing: Landing) -> None:
    first = begun(landing)
    landing.folder.rename(landing.folder.parent / "aside")
    second = landing.sink()
    assert landing.done(second.take(PLACE)) is None
    with pytest.raises(Fenced, match=re.escape(str(landing.folder))):
        landing.done(first.commit(PLACE, Position(15, "o")))
    assert landing.files == []


def flip(path: Path) -> None:
    """Invert one bit in the middle of the file."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def test_a_damaged_file_is_named_and_read_by_nobody(landing: Landing) -> None:
    sink = begun(landing)
    landing.done(sink.commit(PLACE, Position(15, "o")))
    damaged = files_in(landing.folder, "avro")[1].path
    flip(damaged)
    with pytest.raises(CorruptData, match=f"{damaged.name} .*checksum"):
        landing.landed()


def test_a_file_that_is_cut_off_is_damaged(landing: Landing) -> None:
    begun(landing)
    path = files_in(landing.folder, "avro")[0].path
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(CorruptData, match="is damaged"):
        landing.landed()


def test_a_missing_file_is_said(landing: Landing) -> None:
    sink = begun(landing)
    landing.done(sink.commit(PLACE, Position(15, "o")))
    landing.land(sink, 15, 20)
    files_in(landing.folder, "avro")[1].path.unlink()
    with pytest.raises(DataLossDetected, match=r"\b10 to 14 of orders-3\b"):
        landing.landed()


def test_files_of_two_landings_are_not_mixed(landing: Landing) -> None:
    begun(landing)
    (landing.folder / f"{5:020}-{12:020}-00000000.avro").touch()
    with pytest.raises(CorruptData, match="overlaps"):
        landing.landed()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "nothing",
        "\xff",
        json.dumps({"next_offset": -1, "origin": "", "landed": 0, "file": ""}),
        json.dumps({"next_offset": 1, "origin": 1, "landed": 0, "file": ""}),
        json.dumps({"next_offset": 1, "origin": "", "landed": 2, "file": ""}),
        json.dumps({"next_offset": 1, "origin": "", "landed": 0, "file": "../../away"}),
    ],
)
def test_a_damaged_position_stops_the_partition(landing: Landing, text: str) -> None:
    begun(landing).close()
    (landing.folder / POSITION).write_text(text, encoding="latin-1")
    with pytest.raises(CorruptData, match=r"\.position\.json"):
        landing.done(landing.sink().take(PLACE))
    (landing.folder / POSITION).unlink()
    assert landing.done(landing.sink().take(PLACE)) == Position(10)


def test_a_place_that_cannot_be_used_is_refused_with_words(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="folder"):
        open_source(f"file:{tmp_path}/nothing")
    with pytest.raises(ConfigError, match=r"'size'.*\bfile_mib\b.*\bfile_seconds\b"):
        open_sink(f"file:{tmp_path}?size=3")
    with pytest.raises(ConfigError, match=r"file_mib: .*'0'"):
        open_sink(f"file:{tmp_path}?file_mib=0")
    with pytest.raises(ConfigError, match=r"'s3': .*file"):
        open_sink("s3:/bucket")
    assert open_sink(f"file:{tmp_path}?file_mib=2&file_seconds=5").commit_rule == (2 * 2**20, 5)
    assert is_connector("file:/a")
    assert not is_connector("host:9092,other:9092")
    assert not is_connector("file:9092")


def test_a_folder_that_may_not_be_written_is_said(landing: Landing) -> None:
    landing.root.parent.mkdir(exist_ok=True)
    landing.root.write_text("no folder")
    with pytest.raises(Unreachable, match="Not a directory"):
        landing.done(landing.sink().take(PLACE))


def opened(root: Path) -> list[str]:
    """Return the files below the folder that this process has open."""
    targets = []
    for name in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # closed since by another thread
            targets.append(os.readlink(f"/proc/self/fd/{name}"))
    return [target for target in targets if target.startswith(str(root))]


def test_nothing_is_left_open(landing: Landing) -> None:
    sink = begun(landing)
    assert (landing.folder / LOCK).exists()
    assert len(opened(landing.root)) == 2
    sink.close()
    sink.close()
    assert opened(landing.root) == []
    assert not list(landing.folder.glob(".*.part"))
