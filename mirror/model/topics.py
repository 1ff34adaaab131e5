"""Partitions, and the rules that select and rename topics."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from hashlib import sha256
from itertools import accumulate
from typing import Any, Final, NamedTuple

from mirror.errors import HeadraceError, InvalidRequest
from mirror.model import bounds
from mirror.model.expressions import (
    LONGEST,
    Expression,
    expression_of,
    require_topic_characters,
    single_alternatives,
    split_look_ahead,
)
from mirror.model.movement.history import UNKNOWN_RETENTION, Retention

PLACEHOLDER: Final = "*"
"""Placeholder for the source topic name in a template of destination names, as in Brooklin."""

OWN_PREFIX: Final = "headrace-"
"""Default prefix of internal topics of Headrace."""
DEAD_LETTER_SUFFIX: Final = ".headrace-dead-letters"
"""Suffix of dead-letter topics, which contain records that a destination topic rejected."""
CANARY_PREFIX: Final = f"{OWN_PREFIX}canary."
"""Prefix of the canary topics of datastreams."""

LEGAL_TOPIC: Final = r"[a-zA-Z0-9._-]{1,249}"
"""Regular expression of legal topic names. Kafka also rejects `.` and `..`."""

_NAMES_OF_ANY_SHAPE: Final = ("a", "Z", "0", "_", "-", ".x", "x.y-Z_0", "q7f3.zx-19_Kw", "x" * 249)
_LEGAL_TOPIC: Final = re.compile(LEGAL_TOPIC)
_ILLEGAL: Final = re.compile(r"[^a-zA-Z0-9._-]")
_LONGEST_CANARY: Final = 200
"""Maximum length of the name of a canary topic. The limit leaves space for a prefix at the destination."""
_HASH_BYTES: Final = 8

EVERY_TOPIC: Final = ""
"""Placeholder for all topics together. No topic has an empty name."""

MOST_PARTITIONS: Final = 1_000_000
"""Upper limit of partition numbers in measurements. No topic has as many partitions."""


def is_legal_topic(name: str) -> bool:
    """Return whether Kafka accepts the name for a topic."""
    return bool(_LEGAL_TOPIC.fullmatch(name)) and name not in (".", "..")


_MOST_DIGITS: Final = len(str(bounds.LARGEST_PARTITION))


class TopicPartition(NamedTuple):
    """A partition of a topic. Sorted by topic, then by number."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"

    @classmethod
    def parse(cls, text: str) -> TopicPartition:
        """Parse `topic-partition`. The number follows the last dash.

        Raises InvalidRequest if the topic name or the number is missing or malformed.
        """
        topic, dash, number = text.rpartition("-")
        is_number = number.isascii() and number.isdecimal() and len(number) <= _MOST_DIGITS
        if not dash or not _LEGAL_TOPIC.fullmatch(topic) or not is_number:
            raise InvalidRequest(f"{bounds.shown(text)} is not a partition", advice="write it as topic-0")
        return cls(topic, bounds.integer("a partition", int(number), 0, bounds.LARGEST_PARTITION))


class SourcePosition(NamedTuple):
    """Committed offset of a consumer group (None if unknown), log start offset and end offset of a source
    partition."""

    committed: int | None
    first: int
    end: int


class WaitingRecord(NamedTuple):
    """Timestamp of a record that waits to be copied, and the retention of its topic.

    The timestamp is in epoch ms, None if unknown. The retention is `UNLIMITED` if all records are kept, None
    if the settings are unreadable.
    """

    written_ms: int | None
    retention: Retention = UNKNOWN_RETENTION


def checked_topic(label: str, value: object) -> str:
    """Return a legal topic name. Raises InvalidRequest."""
    name = bounds.text(label, value, 249, shortest=1)
    if not is_legal_topic(name):
        raise InvalidRequest(
            f"{label} {bounds.shown(name)} has characters that Kafka does not allow",
            advice="letters, digits, dot, underscore and dash are allowed",
        )
    return name


def canary_topic(datastream: str) -> str:
    """Return the name of the source topic that the canary of a datastream writes to.

    The name contains a hash if the name of the datastream is too long or has illegal characters.
    """
    topic = f"{CANARY_PREFIX}{datastream}"
    if is_legal_topic(topic) and len(topic) <= _LONGEST_CANARY:
        return topic
    plain = _ILLEGAL.sub("_", topic)[: _LONGEST_CANARY - _HASH_BYTES * 2 - 1]
    return f"{plain}.{sha256(datastream.encode()).hexdigest()[: _HASH_BYTES * 2]}"


@dataclass(frozen=True)
class TopicSelection:
    """Selects the topics of a cluster that a datastream mirrors.

    `include`, `exclude`: regular expressions that must match the whole topic name; `exclude` takes
    precedence. `internal`: also mirror internal topics. Names of internal topics start with two underscores
    (Kafka and its tools), start with `headrace-`, or end with `.headrace-dead-letters`. An internal topic of
    Headrace is also mirrored if the expression contains its full name.

    `canary`: canary topic of the datastream, which is always mirrored; empty if there is none. The name is
    derived from the definition, and not stored.

    Raises InvalidRequest if an expression is invalid, too long or empty.
    """

    include: str
    exclude: str = ""
    internal: bool = False
    canary: str = ""

    def __post_init__(self) -> None:
        if not self.include:
            raise InvalidRequest("the topic expression is empty", advice="use .* for every topic")
        bounds.flag("internal", self.internal)
        assert self._included is not None  # compile now to reject an invalid expression early
        assert self._excluded is not None or not self.exclude

    @cached_property
    def _included(self) -> Expression:
        return expression_of("topics", self.include)

    @cached_property
    def _excluded(self) -> Expression | None:
        return expression_of("exclude", self.exclude) if self.exclude else None

    @cached_property
    def _named(self) -> frozenset[str]:
        """Full topic names in the expression, without its anchors, brackets and backslashes."""
        return frozenset(re.sub(r"[\^$()\\]|\?:", "", self.include).split("|"))

    @cached_property
    def names(self) -> frozenset[str]:
        """Topics whose full names the expression lists, such as `orders` and `users` in `^(orders|users)$`.

        The metadata of these topics can be requested by name.
        """
        text = self.include.removeprefix("^").removesuffix("$")
        if text.startswith("(") and text.endswith(")"):
            text = text[1:-1].removeprefix("?:")
        alternatives = (alternative.removeprefix("^").removesuffix("$") for alternative in text.split("|"))
        names = (alternative.replace("\\.", ".") for alternative in alternatives)
        return frozenset(name for name in names if is_legal_topic(name) and self.matches(name))

    @property
    def beginnings(self) -> frozenset[str]:
        """Prefixes of which every selected topic has one. Contains the empty string if unknown."""
        beginnings = self._included.beginnings
        return beginnings | {self.canary} if self.canary else beginnings

    @cached_property
    def takes_all(self) -> bool:
        """True if every topic except internal topics is selected. `exclude` is empty, and `include` matches
        very different sample names, because such an expression can be written in many ways."""
        return not self.exclude and all(map(self._included.matches, _NAMES_OF_ANY_SHAPE))

    def takes_own(self, topic: str) -> bool:
        """Return whether an internal topic of Headrace is selected explicitly."""
        return self.internal or topic == self.canary or topic in self._named

    def require_topic_characters(self) -> None:
        """Check that the expressions have only characters that topic names can have. Raises InvalidRequest.

        An example is the comma of a list. Stored selections with such a character continue to run, with a
        warning.
        """
        require_topic_characters("topics", self.include)
        require_topic_characters("exclude", self.exclude)

    def alternatives(self) -> Iterator[tuple[str, Expression]]:
        """Yield each alternative of `include`, with the expression that contains only this alternative."""
        for text, alone in single_alternatives(self.include):
            yield text, Expression("topics", alone)

    def excludes_none(self, topics: Iterable[str]) -> bool:
        """Return whether `exclude` is set and matches none of the topics."""
        return self._excluded is not None and not any(map(self._excluded.matches, topics))

    def matches(self, topic: str) -> bool:
        """Return whether the datastream mirrors the topic."""
        return (self._included.matches(topic) and self._keeps(topic)) or topic == self.canary != ""

    def choose(self, topics: Iterable[str], own: Collection[str] = ()) -> tuple[str, ...]:
        """Return the selected topics, sorted.

        `own`: internal topics of Headrace with configured names, which are mirrored only if they are selected
        explicitly.
        """
        topics = tuple(topics)
        found = {topic for topic in self._included.choose(topics) if self._keeps(topic)}
        found |= {self.canary} & {*topics} if self.canary else set()
        return tuple(sorted(topic for topic in found if topic not in own or self.takes_own(topic)))

    @property
    def document(self) -> dict[str, Any]:
        """Topic selection as a JSON object, without an empty `canary`, which older versions do not know."""
        return {key: value for key, value in asdict(self).items() if key != "canary" or value}

    def _keeps(self, topic: str) -> bool:
        if topic.startswith("__") and not self.internal:
            return False
        if _is_own(topic) and not self.takes_own(topic):
            return False
        return self._excluded is None or not self._excluded.matches(topic)


def selection_without_look_ahead(include: object, exclude: object, internal: object) -> TopicSelection:
    """Return a topic selection without look-aheads. A negative look-ahead at the start of `include` is moved
    to `exclude`.

    Raises the errors of TopicSelection, and InvalidRequest for any other look-around.
    """
    more = ""
    if isinstance(include, str) and len(include) <= LONGEST:
        include, more = split_look_ahead(include)
    exclude = bounds.text("exclude", exclude, LONGEST)
    if more:
        exclude = f"(?:{exclude})|{more}" if exclude else more
    return TopicSelection(bounds.text("topics", include, LONGEST), exclude, bounds.flag("internal", internal))


def _is_own(topic: str) -> bool:
    return topic.startswith(OWN_PREFIX) or topic.endswith(DEAD_LETTER_SUFFIX)


@dataclass(frozen=True)
class TopicNaming:
    """Template for destination topic names. `*` stands for the name of the source topic.

    Raises InvalidRequest if the template does not contain exactly one `*` or cannot produce a legal name.
    """

    template: str = PLACEHOLDER

    def __post_init__(self) -> None:
        shown = bounds.shown(bounds.text("the destination name", self.template, 249))
        if self.template.count(PLACEHOLDER) != 1:
            raise InvalidRequest(
                f"destination name {shown} must contain one {PLACEHOLDER}",
                advice="use * for the same names, or prefix.* for a prefix",
            )
        if not _LEGAL_TOPIC.fullmatch(self.template.replace(PLACEHOLDER, "x")):
            raise InvalidRequest(
                f"destination name {shown} has characters that Kafka does not allow",
                advice="letters, digits, dot, underscore and dash are allowed",
            )

    @property
    def is_identity(self) -> bool:
        """True if the template keeps the topic names."""
        return self.template == PLACEHOLDER

    def destination(self, topic: str) -> str:
        """Return the name of the destination topic for a source topic."""
        return self.template.replace(PLACEHOLDER, topic)

    def copy_of(self, place: TopicPartition) -> TopicPartition:
        """Return the destination partition of a source partition."""
        return TopicPartition(self.destination(place.topic), place.partition)

    def source(self, name: str) -> str | None:
        """Return the source topic whose copy has this name, or None if no topic can have it."""
        before, after = self.template.split(PLACEHOLDER)
        is_made = name.startswith(before) and name.endswith(after) and len(name) > len(before) + len(after)
        return name[len(before) : len(name) - len(after)] if is_made else None


@dataclass(frozen=True)
class TopicDescription:
    """A topic: its name, partition count and settings.

    `settings`: values that are set on the topic itself. `defaults`: inherited values of settings that control
    retention. `settings_error`: why the settings could not be read; both are then empty.
    """

    name: str
    partitions: int
    settings: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, str] = field(default_factory=dict)
    settings_error: HeadraceError | None = None

    def in_force(self, key: str) -> str | None:
        """Return the effective value of a setting, or None if unknown."""
        return self.settings.get(key, self.defaults.get(key))


class TopicCreation(NamedTuple):
    """Result of the creation or extension of a topic. `error`: reason why the topic was not created or
    extended; if it is retriable, the change may have been made. `adjustments`: a sentence for each setting
    that was clamped or omitted."""

    error: HeadraceError | None = None
    adjustments: tuple[str, ...] = ()


TOPICS_AT_ONCE: Final = 200
PARTITIONS_AT_ONCE: Final = 2_000
"""Maximum number of topics in a creation request, and of their partitions.

A controller rejects requests with more than 10,000 changes; each partition and each setting is a change.
"""


def first_request(partitions: Iterable[int], most: int = TOPICS_AT_ONCE) -> int:
    """Return how many of the topics, from the first, fit into one creation request; at least one.
    `partitions`: partition count of each topic. `most`: maximum number of topics."""
    totals = zip(range(most), accumulate(partitions), strict=False)
    return max(1, sum(total <= PARTITIONS_AT_ONCE for _, total in totals))
