"""Connector `file`: writes records to Avro files and reads such files back.

    headrace copy --source east --destination file:/var/landing?file_mib=64&file_seconds=60 …
    headrace copy --source file:/var/landing --destination west …

`landing_folder.py` implements the durability guarantees. A file contains the records of one range of offsets
of one partition; a file that is visible is complete.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, unquote

from mirror.errors import ConfigError, CorruptData, DataLossDetected, Unreachable
from mirror.model.datastreams.policy import Guarantee
from mirror.model.topics import TopicPartition
from mirror.protocol.batches.holes import Span
from mirror.protocol.batches.records import Record
from mirror.replication.connector import Bounds, CommitRule, Position, RecordPortion
from mirror.replication.connectors.avro_format import SUFFIX, AvroWriter, read_avro
from mirror.replication.connectors.landing_folder import (
    LandedFile,
    OwnedFolder,
    check,
    files_in,
    folder_of,
    make_folder,
    partitions_in,
    position_in,
    translated,
)

_MIB: Final = 1024 * 1024
_FILE_MIB: Final = 64
_FILE_SECONDS: Final = 60


def open_sink(place: str) -> FileSink:
    """Open a sink for `/folder[?file_mib=64&file_seconds=60]`. Raises ConfigError."""
    folder, options = _split(place, {"file_mib": _FILE_MIB, "file_seconds": _FILE_SECONDS})
    return FileSink(folder, CommitRule(options["file_mib"] * _MIB, options["file_seconds"]))


def open_source(place: str) -> FileSource:
    """Open a source for `/folder`. Raises ConfigError if the folder does not exist."""
    folder, _ = _split(place, {})
    if not folder.is_dir():
        raise ConfigError(f"{folder} is not a folder", advice="name the folder of an earlier copy to files")
    return FileSource(folder)


def _split(place: str, defaults: Mapping[str, int]) -> tuple[Path, dict[str, int]]:
    path, _, text = place.partition("?")
    options = dict(defaults)
    for name, value in parse_qsl(text, keep_blank_values=True):
        if name not in defaults:
            known = ", ".join(defaults) or "none"
            raise ConfigError(f"unknown option {name!r} of connector 'file'", advice=f"available: {known}")
        if not (value.isascii() and value.isdecimal() and 0 < int(value) < 2**31):
            raise ConfigError(f"{name}: invalid value {value!r}", advice="use a positive integer")
        options[name] = int(value)
    return Path(unquote(path)), options


class FileSink:
    """Writes each partition to a separate folder. Implements `connector.RecordSink`.

    Exactly-once is not supported: records and position are committed together, but readers of the files do
    not read committed transactions.
    """

    guarantees = frozenset({Guarantee.AT_LEAST_ONCE, Guarantee.EFFECTIVELY_ONCE})

    def __init__(self, root: Path, commit_rule: CommitRule) -> None:
        self.commit_rule = commit_rule
        self._root = root
        self._lanes: dict[TopicPartition, tuple[OwnedFolder, list[AvroWriter]]] = {}

    async def prepare(self, topics: Mapping[str, int]) -> None:
        """Create the folders of all partitions, even empty ones, because a replay must recreate them too."""
        for topic, partitions in topics.items():
            for number in range(partitions):
                folder = folder_of(self._root, TopicPartition(topic, number))
                with translated(folder):
                    make_folder(folder)

    async def take(self, place: TopicPartition) -> Position | None:
        folder = OwnedFolder(folder_of(self._root, place), SUFFIX)
        self._lanes[place] = folder, []
        return folder.position

    async def write(self, place: TopicPartition, records: Sequence[Record]) -> None:
        folder, writers = self._lanes[place]
        if not records:
            return
        with translated(folder_of(self._root, place)):
            if not writers:
                writers.append(AvroWriter(folder.part()))
            writers[0].write(records)

    async def commit(self, place: TopicPartition, position: Position) -> None:
        folder, writers = self._lanes[place]
        if folder.position == position and not writers:
            return
        with translated(folder_of(self._root, place)):
            while writers:
                writers.pop().flush()
        folder.commit(position)

    async def release(self, place: TopicPartition) -> None:
        folder, _ = self._lanes.pop(place, (None, None))
        if folder is not None:
            folder.close()

    def close(self) -> None:
        for folder, _ in self._lanes.values():
            folder.close()
        self._lanes.clear()


class FileSource:
    """Reads the files of `FileSink`, with the original offsets. Implements `connector.RecordSource`."""

    def __init__(self, root: Path) -> None:
        self._root = root

    async def topics(self) -> Mapping[str, int]:
        return partitions_in(self._root)

    async def bounds(self, places: Sequence[TopicPartition]) -> Mapping[TopicPartition, Bounds]:
        found = {}
        for place in places:
            folder = folder_of(self._root, place)
            files, position = files_in(folder, SUFFIX), position_in(folder, SUFFIX)
            origin = position.origin if position else ""
            end = position.next_offset if position else 0
            found[place] = (
                Bounds(files[0].first, files[-1].end, origin) if files else Bounds(end, end, origin)
            )
        return found

    async def read(self, place: TopicPartition, start: int, end: int) -> AsyncGenerator[RecordPortion, None]:
        position = start
        for file in files_in(folder_of(self._root, place), SUFFIX):
            if file.end <= position or file.first >= end:
                continue
            if file.first > position:
                raise _missing(place, position, file.first)
            check(file)
            seen = file.first
            try:
                with file.path.open("rb") as content:
                    for records in read_avro(content):
                        _require_order(file, records)
                        wanted = [record for record in records if position <= record.offset < end]
                        before, seen = seen, records[-1].offset + 1 if records else seen
                        if wanted:
                            yield RecordPortion(Span(before, seen), wanted)
            except CorruptData as error:
                raise CorruptData(f"{file.path}: {error.message}", advice=error.advice) from error
            except OSError as error:
                raise Unreachable(f"{file.path}: {error.strerror or error}") from error
            yield RecordPortion(Span(seen, file.end))
            position = file.end
        if position < end:
            raise _missing(place, position, end)

    def close(self) -> None:
        """Do nothing, because `read` closes its files."""


def _require_order(file: LandedFile, records: Sequence[Record]) -> None:
    offsets = [record.offset for record in records]
    if offsets and not (file.first <= offsets[0] and offsets[-1] < file.end and sorted(offsets) == offsets):
        raise CorruptData("the records of the file are out of order, or outside the offset range in its name")


def _missing(place: TopicPartition, first: int, end: int) -> DataLossDetected:
    return DataLossDetected(
        f"files with offsets {first} to {end - 1} of {place} are missing",
        advice="restore them; to start after them, remove the earlier files",
    )
