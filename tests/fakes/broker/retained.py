"""Topics with steady traffic and retention, in virtual time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tests.fakes.broker.batches import Content
from tests.fakes.broker.mirrored import MirroredFakes

_EVERY_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Stream:
    """Topic of one partition. `kept_seconds`: its `retention.ms`, None for the default of a week."""

    name: str
    bytes_per_second: int
    kept_seconds: int | None = None


class RetainedTraffic:
    """One batch per second for each stream, deleted at its retention; `run` is a script of the clock.

    Brokers delete whole segments every few minutes; this fake deletes each batch in its second, so that no
    record survives by chance. `lost`: by topic, the seconds after `begin` at which a record was deleted
    before its lane had copied it.
    """

    def __init__(self, streams: list[Stream]) -> None:
        self.streams = streams
        self.lost: dict[str, float] = {}
        self._fakes: MirroredFakes | None = None
        self._began = 0.0
        self._next = 0.0

    def begin(self, fakes: MirroredFakes, backlog_seconds: int = 0) -> None:
        """Create the topics with a backlog of that many seconds."""
        self._fakes = fakes
        self._began = fakes.clock.monotonic()
        self._next = self._began + _EVERY_SECONDS
        for one in self.streams:
            kept = {} if one.kept_seconds is None else {"retention.ms": str(one.kept_seconds * 1000)}
            fakes.source.create_topic(one.name, 1, 1, **kept)
            fakes.target.create_topic(one.name, 1, 1)
            for age in range(backlog_seconds, 0, -1):
                self._write(fakes, one, age * 1000)

    def run(self) -> float | None:
        """Run everything that is due; return the time of the next run."""
        fakes = self._fakes
        if fakes is None:
            return None
        while fakes.clock.monotonic() >= self._next:
            self._next += _EVERY_SECONDS
            for one in self.streams:
                self._write(fakes, one, 0)
                if one.kept_seconds is not None:
                    self._retain(fakes, one, fakes.clock.now_ms() - one.kept_seconds * 1000)
        return self._next

    def _write(self, fakes: MirroredFakes, stream: Stream, age_ms: int) -> None:
        records: list[Content] = [(fakes.clock.now_ms() - age_ms, b"key", bytes(stream.bytes_per_second), [])]
        fakes.source.write(stream.name, records, 0)

    def _retain(self, fakes: MirroredFakes, stream: Stream, oldest_ms: int) -> None:
        log = fakes.source.log(stream.name)
        while log.batches and log.batches[0].max_timestamp < oldest_ms:
            log.delete_before(log.batches[0].last + 1)
        if stream.name not in self.lost and fakes.lane(stream.name).checkpoint < log.start:
            self.lost[stream.name] = fakes.clock.monotonic() - self._began
