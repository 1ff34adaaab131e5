"""Log contents as a consumer reads them."""

from __future__ import annotations

from typing import Final, NamedTuple

from tests.fakes.broker import batches
from tests.fakes.broker.log import PartitionLog

_NO_TIME: Final = -1


class Seen(NamedTuple):
    """Record as a consumer sees it."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]

    @property
    def content(self) -> tuple[object, ...]:
        """All fields except the offset."""
        return tuple(self[1:])


def committed(log: PartitionLog) -> list[Seen]:
    """Return the records before the last stable offset except those of aborted transactions.

    Aborted transactions are found by their markers alone. Undecodable batches are skipped.
    """
    return [record for record, is_visible in _records(log, log.last_stable) if is_visible]


def _records(log: PartitionLog, end: int) -> list[tuple[Seen, bool]]:
    found: list[tuple[Seen, bool]] = []
    open_records: dict[int, list[int]] = {}
    for batch in log.batches:
        if batch.is_control:  # markers after the end count too: they may decide earlier records
            (control,) = batches.view(batch.data)
            for index in open_records.pop(batch.producer, []):
                found[index] = (found[index][0], not control.abort)
            continue
        if batch.base >= end:
            continue
        for record in batches.records_of(batch.data) or []:
            if record.offset < log.start:
                continue
            if batch.is_transactional:
                open_records.setdefault(batch.producer, []).append(len(found))
            headers = tuple((name, value) for name, value in record.headers)
            timestamp = _NO_TIME if record.timestamp is None else record.timestamp  # format 0 has none
            seen = Seen(record.offset, timestamp, record.key, record.value, headers)
            found.append((seen, not batch.is_transactional))
    return found
