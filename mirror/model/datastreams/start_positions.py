"""Explicit start offsets of partitions without a checkpoint. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from mirror.errors import InvalidRequest
from mirror.model import bounds
from mirror.model.documents import parsed
from mirror.model.topics import TopicPartition, checked_topic

START_POSITIONS: Final = "headrace-start-positions"
"""Metadata key of the start offsets.

Brooklin's own key for start offsets, which imported definitions may contain, has no effect.
"""
EVERY_TOPIC: Final = "*"
_ADVICE: Final = 'write {"topic": {"partition": offset}}, with * for every topic'
_LONGEST: Final = 100_000


@dataclass(frozen=True)
class StartPositions:
    """Explicit start offsets of the partitions of a datastream.

    `offsets`: offsets by topic and partition number. The topic `*` applies to every topic without an entry. A
    partition without an offset starts at the start position of the datastream.
    """

    offsets: Mapping[str, Mapping[int, int]] = field(default_factory=dict)

    def of(self, partition: TopicPartition) -> int | None:
        """Return the start offset of the partition, or None without an entry."""
        found = self.offsets.get(partition.topic, self.offsets.get(EVERY_TOPIC, {}))
        return found.get(partition.partition)

    @property
    def document(self) -> dict[str, dict[str, int]]:
        """Start offsets as a JSON object, with text keys."""
        return {
            topic: {str(number): offset for number, offset in sorted(offsets.items())}
            for topic, offsets in sorted(self.offsets.items())
        }

    @property
    def text(self) -> str:
        """Start offsets as text for the metadata, which `read_positions` parses."""
        return json.dumps(self.document, separators=(",", ":"))


NO_POSITIONS: Final = StartPositions()


def read_positions(label: str, value: object) -> StartPositions:
    """Parse the start offsets in the metadata. Raises InvalidRequest."""
    text = bounds.text(label, value, _LONGEST)
    if not text:
        return NO_POSITIONS
    try:
        document = parsed(text.encode())
    except InvalidRequest as error:
        raise InvalidRequest(f"{label} is not JSON", advice=_ADVICE) from error
    return positions_of_document(label, document)


def positions_of_document(label: str, value: object) -> StartPositions:
    """Read start offsets from a JSON document. Raises InvalidRequest.

    A document without topics applies to every topic.
    """
    document = bounds.mapping(label, value)
    if document and not any(isinstance(inner, Mapping) for inner in document.values()):
        document = {EVERY_TOPIC: document}
    found = {}
    for topic, offsets in document.items():
        if topic != EVERY_TOPIC:
            checked_topic(f"a topic of {label}", topic)
        found[topic] = _offsets(f"{label} of {bounds.shown(topic)}", offsets)
    return StartPositions({topic: offsets for topic, offsets in found.items() if offsets})


def _offsets(label: str, value: object) -> Mapping[int, int]:
    found: dict[int, int] = {}
    for number, offset in bounds.mapping(label, value).items():
        partition = bounds.digits(f"a partition of {label}", str(number), 0, bounds.LARGEST_PARTITION)
        read = bounds.digits if isinstance(offset, str) else bounds.integer
        found[partition] = read(label, offset, 0, bounds.LARGEST_OFFSET)
    return found


def positions_of_options(label: str, lines: Iterable[str]) -> StartPositions:
    """Read start offsets from command-line options `TOPIC:PARTITION=OFFSET`. Raises InvalidRequest."""
    found: dict[str, dict[str, str]] = {}
    for line in lines:
        place, _, offset = line.rpartition("=")
        topic, _, number = place.rpartition(":")
        if not (topic and number and offset):
            raise InvalidRequest(
                f"{label} {bounds.shown(line)} contains no offset", advice="write orders:0=12"
            )
        found.setdefault(topic, {})[number] = offset
    return positions_of_document(label, found)


def positions_from(metadata: Mapping[str, str]) -> StartPositions:
    """Return the start positions in a datastream's metadata. Raises InvalidRequest."""
    return read_positions(f"metadata {START_POSITIONS}", metadata.get(START_POSITIONS, ""))
