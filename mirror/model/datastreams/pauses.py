"""Pauses and resumes partitions of a datastream, and ends expired pauses. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from mirror.errors import InvalidRequest
from mirror.model import bounds
from mirror.model.datastreams.datastream import (
    Datastream,
    DatastreamStatus,
    Halt,
    PartitionPause,
    next_status,
)
from mirror.model.movement.exemptions import WHOLE, with_resumption
from mirror.model.topics import checked_topic
from mirror.wording import first_few

_MOST_PUBLISHED: Final = 10
Partitions = Mapping[str, frozenset[int] | None]
"""Maps each topic to partition numbers; None means the whole topic."""


def paused(present: Mapping[str, PartitionPause], more: Partitions, cause: Halt) -> dict[str, PartitionPause]:
    """Return the pauses after pausing more partitions.

    A topic has one pause, so partitions that were paused before get the new reason. If the request omits some
    of these partitions, the later expiry time applies, so that none resumes too early.
    """
    pauses = dict(present)
    for topic, numbers in more.items():
        before = pauses.get(topic)
        is_whole = numbers is None or (before is not None and before.numbers is None)
        together = (before.numbers or frozenset() if before else frozenset()) | (numbers or frozenset())
        until_ms = cause.until_ms
        if before is not None and not _names_all(numbers, before):
            until_ms = later_end(until_ms, before.until_ms)
        pauses[topic] = PartitionPause(
            None if is_whole else together, cause.reason, cause.since_ms, cause.requested_by, until_ms
        )
    return pauses


def _names_all(numbers: frozenset[int] | None, before: PartitionPause) -> bool:
    return numbers is None or (before.numbers is not None and before.numbers <= numbers)


def later_end(first: int | None, second: int | None) -> int | None:
    """Return the later of two end times. None means that a pause lasts until resumed."""
    return None if first is None or second is None else max(first, second)


def resumed(present: Mapping[str, PartitionPause], fewer: Partitions) -> dict[str, PartitionPause]:
    """Return the pauses after resuming some partitions. Raises InvalidRequest.

    Partitions that are not paused are ignored.
    """
    pauses = dict(present)
    for topic, numbers in fewer.items():
        before = pauses.get(topic)
        if before is None:
            continue
        if numbers is not None and before.numbers is None:
            raise InvalidRequest(
                f"the whole topic {topic} is paused; single partitions cannot be resumed",
                advice=f"resume the whole topic: {topic}:*",
            )
        left = frozenset[int]() if numbers is None or before.numbers is None else before.numbers - numbers
        if left:
            pauses[topic] = replace(before, numbers=left)
        else:
            del pauses[topic]
    return pauses


def noting_resumptions(before: Datastream, after: Datastream, now_ms: int) -> Datastream:
    """Return `after`, with a record of each pause of `before` that has ended.

    Records that were produced during such a pause do not count against an objective.
    """
    found = after.resumptions
    if before.status.is_halted and after.status.is_mirrored and before.halt is not None:
        found = with_resumption(found, WHOLE, None, before.halt.since_ms, now_ms)
    for topic, pause in before.pauses.items():
        left = after.pauses.get(topic)
        if left is None:
            found = with_resumption(found, topic, pause.numbers, pause.since_ms, now_ms)
        elif left.numbers is not None and pause.numbers is not None and pause.numbers - left.numbers:
            numbers = pause.numbers - left.numbers
            found = with_resumption(found, topic, numbers, pause.since_ms, now_ms)
    return after if found is after.resumptions else replace(after, resumptions=found)


@dataclass(frozen=True, slots=True)
class EndedPauses:
    """A datastream after its expired pauses were removed. `sentence`: lists the removed pauses."""

    datastream: Datastream
    sentence: str


def without_ended(datastream: Datastream, now_ms: int) -> EndedPauses | None:
    """Return the datastream without its expired pauses, or None if none has expired."""
    halt, ended = datastream.halt, []
    after = datastream
    if datastream.status is DatastreamStatus.PAUSED and halt is not None and _is_over(halt, now_ms):
        after = replace(after, status=next_status(datastream, "resume"), halt=None)
        ended.append(_sentence("the datastream", halt))
    if datastream.status is not DatastreamStatus.DELETING:
        over = {topic: pause for topic, pause in datastream.pauses.items() if _is_over(pause, now_ms)}
        if over:  # the leader calls this for every datastream in each tick
            left = {topic: pause for topic, pause in datastream.pauses.items() if topic not in over}
            after = replace(after, pauses=left)
        ended += [
            _sentence(f"{topic}:{_numbers(pause.numbers)}", pause) for topic, pause in sorted(over.items())
        ]
    if not ended:
        return None
    after = noting_resumptions(datastream, after, now_ms)
    return EndedPauses(after, f"resumed {first_few(ended, _MOST_PUBLISHED)}")


def _is_over(pause: Halt | PartitionPause, now_ms: int) -> bool:
    return pause.until_ms is not None and pause.until_ms <= now_ms


def _sentence(subject: str, pause: Halt | PartitionPause) -> str:
    requester = f" by {pause.requested_by}" if pause.requested_by else ""
    why = f": {pause.reason}" if pause.reason else ""
    return f"{subject} (paused until {moment_text(pause.until_ms or 0)}{requester}{why})"


def _numbers(numbers: frozenset[int] | None) -> str:
    return "*" if numbers is None else ",".join(map(str, sorted(numbers)))


def moment_text(moment_ms: int) -> str:
    """Format a timestamp (epoch ms) as ISO 8601 in UTC, without fractions of a second.

    A timestamp after the year 9999 is formatted as a number.
    """
    try:
        return datetime.fromtimestamp(moment_ms // 1000, UTC).isoformat().replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return f"{moment_ms} ms"


def read_partitions(texts: Mapping[str, str]) -> dict[str, frozenset[int] | None]:
    """Parse `{"orders": "0,13,2", "users": "*"}`, the format of Brooklin's clients. Raises InvalidRequest."""
    found: dict[str, frozenset[int] | None] = {}
    for name, text in texts.items():
        topic = checked_topic("the topic", name)
        parts = [part.strip() for part in text.split(",") if part.strip()]
        if "*" in parts:
            found[topic] = None
        elif parts:
            label = f"a partition of {topic}"
            found[topic] = frozenset(
                bounds.digits(label, part, 0, bounds.LARGEST_PARTITION) for part in parts
            )
        else:
            raise InvalidRequest(f"no partitions given for {topic}", advice="write 0,13,2 or *")
    if not found:
        raise InvalidRequest("no partitions given", advice='for example {"orders": "0,13,2", "users": "*"}')
    return found
