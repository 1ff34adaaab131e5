"""Partitions, and the rules that select and rename topics."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
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
"""Placeholder for the source topic's name in a destination name template, as in Brooklin."""

OWN_PREFIX: Final = "headrace-"
"""Default prefix of topics that Headrace writes for itself."""
DEAD_LETTER_SUFFIX: Final = ".headrace-dead-letters"
"""Suffix of dead-letter topics, which hold records that a destination topic rejected."""
CANARY_PREFIX: Final = f"{OWN_PREFIX}canary."
"""Prefix of the canary topics of datastreams."""

LEGAL_TOPIC: Final = r"[a-zA-Z0-9._-]{1,249}"
"""Regular expression of legal topic names, except `.` and `..`, which Kafka rejects too."""

_NAMES_OF_ANY_SHAPE: Final = ("a", "Z", "0", "_", "-", ".x", "x.y-Z_0", "q7f3.zx-19_Kw", "x" * 249)
_LEGAL_TOPIC: Final = re.compile(LEGAL_TOPIC)
_ILLEGAL: Final = re.compile(r"[^a-zA-Z0-9._-]")
_LONGEST_CANARY: Final = 200
"""Maximum length of a canary topic, which leaves room for a prefix at the destination."""
_HASH_BYTES: Final = 8

EVERY_TOPIC: Final = ""
"""Placeholder, in place of a topic name, for all topics together. No topic has an empty name."""

MOST_PARTITIONS: Final = 1_000_000
"""Upper limit of partition numbers in measurements; no topic has as many partitions."""


def is_legal_topic(name: str) -> bool:
    """Return whether Kafka accepts the name for a topic."""
    return bool(_LEGAL_TOPIC.fullmatch(name)) and name not in (".", "..")


_MOST_DIGITS: Final = len(str(bounds.LARGEST_PARTITION))


class TopicPartition(NamedTuple):
    """One partition of a topic. Sorts by topic, then number."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"

    @classmethod
    def parse(cls, text: str) -> TopicPartition:
        """Parse `topic-partition`; the number follows the last dash.

        Raises InvalidRequest if the topic name or the number is missing or malformed.
        """
        topic, dash, number = text.rpartition("-")
        is_number = number.isascii() and number.isdecimal() and len(number) <= _MOST_DIGITS
        if not dash or not _LEGAL_TOPIC.fullmatch(topic) or not is_number:
            raise InvalidRequest(f"{bounds.shown(text)} is not a partition", advice="write it as topic-0")
        return cls(topic, bounds.integer("a partition", int(number), 0, bounds.LARGEST_PARTITION))


class SourcePosition(NamedTuple):
    """Offsets of one partition at its source: the consumer group's committed offset (None if unknown), the
    start of the log and its end."""

    committed: int | None
    first: int
    end: int


class WaitingRecord(NamedTuple):
    """Timestamp of a waiting record (epoch ms, None if unknown), and the retention of its topic by time and
    by size (`UNLIMITED` if the topic keeps all records, None if the settings cannot be read)."""

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
    """Return the topic that the canary of a datastream writes at the source. If the datastream's name is too
    long or contains characters that Kafka does not allow, a hash makes the topic name unique."""
    topic = f"{CANARY_PREFIX}{datastream}"
    if is_legal_topic(topic) and len(topic) <= _LONGEST_CANARY:
        return topic
    plain = _ILLEGAL.sub("_", topic)[: _LONGEST_CANARY - _HASH_BYTES * 2 - 1]
    return f"{plain}.{sha256(datastream.encode()).hexdigest()[: _HASH_BYTES * 2]}"


@dataclass(frozen=True)
class TopicSelection:
    """Topics of a cluster that a datastream mirrors.

    `include` and `exclude` are regular expressions that must match the whole topic name; `exclude` takes
    precedence. Names that start with two underscores belong to Kafka and its tools; names that start with
    `headrace-` or end with `.headrace-dead-letters` belong to Headrace. Topics of Kafka and Headrace are
    mirrored only if `internal` is true, so that `.*` never selects them by accident. A topic of Headrace is
    also mirrored if the expression contains its full name.

    `canary`: canary topic of the datastream, which is mirrored regardless of the expressions; empty if there
    is none. `canary` is derived from the definition and is not stored in it.

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
        """Full topic names in the expression, found by removing anchors, brackets and backslashes."""
        return frozenset(re.sub(r"[\^$()\\]|\?:", "", self.include).split("|"))

    @cached_property
    def names(self) -> frozenset[str]:
        """Topics whose full names the expression lists, such as `orders` and `users` in `^(orders|users)$`.
        Metadata of these topics can be requested by name."""
        text = self.include.removeprefix("^").removesuffix("$")
        if text.startswith("(") and text.endswith(")"):
            text = text[1:-1].removeprefix("?:")
        alternatives = (alternative.removeprefix("^").removesuffix("$") for alternative in text.split("|"))
        names = (alternative.replace("\\.", ".") for alternative in alternatives)
        return frozenset(name for name in names if is_legal_topic(name) and self.matches(name))

    @property
    def beginnings(self) -> frozenset[str]:
        """Possible prefixes of mirrored topics; contains the empty string if unknown."""
        beginnings = self._included.beginnings
        return beginnings | {self.canary} if self.canary else beginnings

    @cached_property
    def takes_all(self) -> bool:
        """True if every topic except those of Kafka and Headrace is mirrored: `exclude` is empty, and
        `include` matches a set of very different sample names. Sample names are used because the same
        expression can be written in many ways."""
        return not self.exclude and all(map(self._included.matches, _NAMES_OF_ANY_SHAPE))

    def takes_own(self, topic: str) -> bool:
        """Return whether one of Headrace's own topics is selected explicitly."""
        return self.internal or topic == self.canary or topic in self._named

    def require_topic_characters(self) -> None:
        """Raise InvalidRequest if an expression contains a literal character that no topic name can have,
        such as the comma of a list. Stored selections may contain such a literal: they keep running, with a
        warning."""
        require_topic_characters("topics", self.include)
        require_topic_characters("exclude", self.exclude)

    def alternatives(self) -> Iterator[tuple[str, Expression]]:
        """Yield the text of each alternative of `include`, and the expression for it alone, ignoring
        `exclude`."""
        for text, alone in single_alternatives(self.include):
            yield text, Expression("topics", alone)

    def excludes_none(self, topics: Iterable[str]) -> bool:
        """Return whether `exclude` is set and matches none of the topics."""
        return self._excluded is not None and not any(map(self._excluded.matches, topics))

    def matches(self, topic: str) -> bool:
        """Return whether the datastream mirrors the topic."""
        return (self._included.matches(topic) and self._keeps(topic)) or topic == self.canary != ""

    def choose(self, topics: Iterable[str]) -> tuple[str, ...]:
        """Return the topics that are mirrored, sorted."""
        topics = tuple(topics)
        found = {topic for topic in self._included.choose(topics) if self._keeps(topic)}
        return tuple(sorted(found | ({self.canary} & {*topics}) if self.canary else found))

    @property
    def document(self) -> dict[str, Any]:
        """JSON-ready form, without an empty `canary`, which older versions do not know."""
        return {key: value for key, value in asdict(self).items() if key != "canary" or value}

    def _keeps(self, topic: str) -> bool:
        if topic.startswith("__") and not self.internal:
            return False
        if _is_own(topic) and not self.takes_own(topic):
            return False
        return self._excluded is None or not self._excluded.matches(topic)


def selection_without_look_ahead(include: object, exclude: object, internal: object) -> TopicSelection:
    """Build a selection whose `include` may start with negative look-aheads, which are moved to `exclude`.

    Raises InvalidRequest for the same reasons as TopicSelection, and for any other look-around.
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
    """Template for the destination topic's name, in which `*` stands for the source topic's name.

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
        """True if topics keep their names."""
        return self.template == PLACEHOLDER

    def destination(self, topic: str) -> str:
        """Return the destination topic's name."""
        return self.template.replace(PLACEHOLDER, topic)

    def source(self, name: str) -> str | None:
        """Return the source topic of a destination topic, or None if the template cannot produce that
        name."""
        before, after = self.template.split(PLACEHOLDER)
        is_made = name.startswith(before) and name.endswith(after) and len(name) > len(before) + len(after)
        return name[len(before) : len(name) - len(after)] if is_made else None


@dataclass(frozen=True)
class TopicDescription:
    """A topic as described by its cluster. `settings` contains only the values that are set for the topic;
    `defaults` contains the effective values of other settings that control retention."""

    name: str
    partitions: int
    topic_id: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, str] = field(default_factory=dict)

    def in_force(self, key: str) -> str | None:
        """Return the effective value of a setting, or None if unknown."""
        return self.settings.get(key, self.defaults.get(key))


class TopicCreation(NamedTuple):
    """Result of the creation of a topic. `error`: reason why the topic was not created; if it is retriable,
    the topic may exist. `adjustments`: a sentence for each setting that was clamped or omitted."""

    error: HeadraceError | None = None
    adjustments: tuple[str, ...] = ()


TOPICS_AT_ONCE: Final = 200
PARTITIONS_AT_ONCE: Final = 2_000
"""Maximum number of topics that one request creates, and of their partitions. A controller rejects requests
with more than 10,000 changes, of which each partition and each setting is one."""


def first_request(partitions: Iterable[int], most: int = TOPICS_AT_ONCE) -> int:
    """Return how many of the first topics one request creates; at least one. `partitions`: partition counts
    of the topics. `most`: maximum number of topics."""
    totals = zip(range(most), accumulate(partitions), strict=False)
    return max(1, sum(total <= PARTITIONS_AT_ONCE for _, total in totals))
