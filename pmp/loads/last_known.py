"""Caches the last good load report of each cluster in memory and in a file, for outages of Pinot.

A file is replaced atomically (written beside the old one and renamed), at most once per `WRITE_EVERY_MS`.
Unreadable files are ignored.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

from mirror.loggers import get_logger
from mirror.model.load import LoadLevel, LoadReport, PartitionLoad, RateSource
from mirror.model.topics import TopicPartition

_log = get_logger(__name__)

WRITE_EVERY_MS: Final = 60_000
_FORMAT: Final = 2


@dataclass(frozen=True)
class CachedReport:
    """A load report, and the time at which it was made (epoch milliseconds)."""

    report: LoadReport
    answered_ms: int


class LastKnown:
    """Cache of the last good load report of each cluster. If `folder` is None, only in memory."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._memory: dict[str, CachedReport] = {}
        self._written_ms: dict[str, int] = {}

    def remember(self, cluster: str, report: LoadReport, now_ms: int) -> None:
        """Store a load report. If the file cannot be written, log this and keep the report in memory."""
        self._memory[cluster] = CachedReport(report, now_ms)
        written_ms = self._written_ms.get(cluster)
        if self._folder is None or (written_ms is not None and 0 <= now_ms - written_ms < WRITE_EVERY_MS):
            return
        self._written_ms[cluster] = now_ms
        path = self._path(cluster)
        draft = path.with_suffix(".draft")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            draft.write_bytes(gzip.compress(json.dumps(_document(report, now_ms)).encode(), 1))
            draft.replace(path)
        except OSError as error:
            _log.warning("cannot write the loads to disk", path=str(path), problem=str(error))

    def recall(self, cluster: str) -> CachedReport | None:
        """Return the last load report of a cluster, possibly from before a restart; None if there is none."""
        if cluster not in self._memory and self._folder is not None:
            found = _read(self._path(cluster))
            if found is not None:
                self._memory[cluster] = found
        return self._memory.get(cluster)

    def _path(self, cluster: str) -> Path:
        assert self._folder is not None
        return self._folder / f"{quote(cluster, safe='')}.loads.json.gz"


def _document(report: LoadReport, now_ms: int) -> Mapping[str, object]:
    return {
        "format": _FORMAT,
        "answered_ms": now_ms,
        "measured_at_ms": report.measured_at_ms,
        "provider": report.provider,
        "loads": [
            [*partition, load.bytes_per_second, load.messages_per_second, *_marks(load)]
            for partition, load in report.loads.items()
        ],
    }


def _marks(load: PartitionLoad) -> tuple[LoadLevel, RateSource, int | None]:
    return load.level, load.rate_source, load.measured_at_ms


def _read(path: Path) -> CachedReport | None:
    try:
        document = json.loads(gzip.decompress(path.read_bytes()))
        if document["format"] != _FORMAT:
            return None
        loads = {
            TopicPartition(topic, number): PartitionLoad(
                rate, messages, LoadLevel(level), RateSource(source), measured
            )
            for topic, number, rate, messages, level, source, measured in document["loads"]
        }
        report = LoadReport(loads, document["provider"], document["measured_at_ms"])
        return CachedReport(report, document["answered_ms"])
    except FileNotFoundError:
        return None
    except (OSError, EOFError, zlib.error, ValueError, KeyError, TypeError) as error:
        _log.warning("cannot read the stored loads", path=str(path), problem=str(error))
        return None
