"""Partitions, and the rules that select and rename topics."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, NamedTuple

from mirror.errors import InvalidRequest
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
"""Stands for the source topic's name in a destination name template, as in Brooklin."""

OWN_PREFIX: Final = "headrace-"
"""Begins the names of topics that Headrace writes for itself, as the settings have them by default."""
DEAD_LETTER_SUFFIX: Final = ".headrace-dead-letters"
"""Ends the name of the topic that holds records which a destination topic refused."""

LEGAL_TOPIC: Final = r"[a-zA-Z0-9._-]{1,249}"
"""Regular expression of the names that Kafka accepts, but for `.` and `..`, which it refuses too."""

_NAMES_OF_ANY_SHAPE: Final = ("a", "Z", "0", "_", "-", ".x", "x.y-Z_0", "q7f3.zx-19_Kw", "x" * 249)
_LEGAL_TOPIC: Final = re.compile(LEGAL_TOPIC)

EVERY_TOPIC: Final = ""
"""In the place of a topic's name where something is said of all topics together; no topic is called so."""

MOST_PARTITIONS: Final = 1_000_000
"""No topic has as many: a number from here on in a measurement is no partition's."""


def is_legal_topic(name: str) -> bool:
    """Whether Kafka accepts the name for a topic."""
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
        """Read `topic-partition` (the part after the last dash is the number).

        Raises InvalidRequest when there is no topic name before the last dash, or no number behind it.
        """
        topic, dash, number = text.rpartition("-")
        is_number = number.isascii() and number.isdecimal() and len(number) <= _MOST_DIGITS
        if not dash or not _LEGAL_TOPIC.fullmatch(topic) or not is_number:
            raise InvalidRequest(f"{bounds.shown(text)} is no partition", advice="write it as topic-0")
        return cls(topic, bounds.integer("a partition", int(number), 0, bounds.LARGEST_PARTITION))


class SourcePosition(NamedTuple):
    """Offsets of one partition at its source: what a consumer group has committed (None: nothing that is
    known), the first record that is still there, and the end."""

    committed: int | None
    first: int
    end: int


class WaitingRecord(NamedTuple):
    """When a record of a partition was written, by its time stamps (epoch ms; None: that is not known), and
    how long and how much the topic keeps: `UNLIMITED` for everything, None where that cannot be read."""

    written_ms: int | None
    retention: Retention = UNKNOWN_RETENTION


def checked_topic(what: str, value: object) -> str:
    """A name that Kafka allows a topic to have. Raises InvalidRequest."""
    name = bounds.text(what, value, 249, shortest=1)
    if not is_legal_topic(name):
        raise InvalidRequest(
            f"{what} {bounds.shown(name)} has characters that Kafka does not allow",
            advice="letters, digits, dot, underscore and dash are allowed",
        )
    return name


@dataclass(frozen=True)
class TopicSelection:
    """Which topics of a cluster a datastream mirrors.

    `include` and `exclude` are regular expressions over the whole topic name; exclude wins.
    Names that begin with two underscores belong to Kafka and its tools, those that begin with `headrace-`
    or end with `.headrace-dead-letters` to Headrace; they are mirrored only when `internal` is true, so that
    `.*` never takes them by accident. Headrace's are mirrored too when the expression names them in full.

    Raises InvalidRequest when an expression does not compile, is too long or is empty.
    """

    include: str
    exclude: str = ""
    internal: bool = False

    def __post_init__(self) -> None:
        if not self.include:
            raise InvalidRequest("the topic expression is empty", advice="use .* for every topic")
        bounds.flag("internal", self.internal)
        assert self._included is not None  # compiled here, so that a wrong one is refused at once
        assert self._excluded is not None or not self.exclude

    @cached_property
    def _included(self) -> Expression:
        return expression_of("topics", self.include)

    @cached_property
    def _excluded(self) -> Expression | None:
        return expression_of("exclude", self.exclude) if self.exclude else None

    @cached_property
    def _named(self) -> frozenset[str]:
        """What the expression holds in full, without its anchors, brackets and backslashes."""
        return frozenset(re.sub(r"[\^$()\\]|\?:", "", self.include).split("|"))

    @cached_property
    def names(self) -> frozenset[str]:
        """Topics that the expression names in full, such as both of `^(orders|users)$`: they can be asked for
        by name."""
        text = self.include.removeprefix("^").removesuffix("$")
        if text.startswith("(") and text.endswith(")"):
            text = text[1:-1].removeprefix("?:")
        alternatives = (one.removeprefix("^").removesuffix("$") for one in text.split("|"))
        names = (one.replace("\\.", ".") for one in alternatives)
        return frozenset(one for one in names if is_legal_topic(one) and self.matches(one))

    @property
    def beginnings(self) -> frozenset[str]:
        """Every topic that is mirrored begins with one of these; the empty one where that is not known."""
        return self._included.beginnings

    @cached_property
    def takes_all(self) -> bool:
        """Whether every topic is mirrored but those of Kafka and Headrace: nothing is excluded, and names of
        every shape match. It is told by samples, since expressions can say one thing in many ways."""
        return not self.exclude and all(map(self._included.matches, _NAMES_OF_ANY_SHAPE))

    def takes_own(self, topic: str) -> bool:
        """Whether a topic that Headrace writes for itself is meant, and not taken by accident."""
        return self.internal or topic in self._named

    def require_topic_characters(self) -> None:
        """Raise InvalidRequest if an expression has a literal character that no topic name can have, such as
        the comma of a list. A stored selection may have one: it runs on, with a remark."""
        require_topic_characters("topics", self.include)
        require_topic_characters("exclude", self.exclude)

    def alternatives(self) -> Iterator[tuple[str, Expression]]:
        """Yield the text of each alternative of `include`, and what it selects alone, without regard to
        `exclude`."""
        for text, alone in single_alternatives(self.include):
            yield text, Expression("topics", alone)

    def excludes_none(self, topics: Iterable[str]) -> bool:
        """Return whether there is an exclusion and it matches none of the topics."""
        return self._excluded is not None and not any(map(self._excluded.matches, topics))

    def matches(self, topic: str) -> bool:
        """Whether the datastream mirrors the topic."""
        return self._included.matches(topic) and self._keeps(topic)

    def choose(self, topics: Iterable[str]) -> tuple[str, ...]:
        """The mirrored ones among the topics, sorted."""
        return tuple(sorted(topic for topic in self._included.choose(topics) if self._keeps(topic)))

    def _keeps(self, topic: str) -> bool:
        if topic.startswith("__") and not self.internal:
            return False
        if _is_own(topic) and not self.takes_own(topic):
            return False
        return self._excluded is None or not self._excluded.matches(topic)


def selection_without_look_ahead(include: object, exclude: object, internal: object) -> TopicSelection:
    """A selection whose `include` may begin with negative look-aheads, which become part of `exclude`.

    Raises InvalidRequest as TopicSelection, also for a look-around anywhere else.
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
    """How a mirrored topic is called at the destination: a template in which `*` is the source name.

    Raises InvalidRequest when the template has not exactly one `*` or cannot give a legal name.
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
        """Whether topics keep their names."""
        return self.template == PLACEHOLDER

    def destination(self, topic: str) -> str:
        """The destination topic's name."""
        return self.template.replace(PLACEHOLDER, topic)

    def source(self, name: str) -> str | None:
        """The topic whose destination topic has this name; None: no topic gives it."""
        before, after = self.template.split(PLACEHOLDER)
        is_made = name.startswith(before) and name.endswith(after) and len(name) > len(before) + len(after)
        return name[len(before) : len(name) - len(after)] if is_made else None


@dataclass(frozen=True)
class TopicDescription:
    """A topic as its cluster describes it. `settings` holds only values that were set on the topic,
    `defaults` those in force of the others that decide which records are kept."""

    name: str
    partitions: int
    topic_id: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, str] = field(default_factory=dict)

    def in_force(self, key: str) -> str | None:
        """Return the value of a setting, or None where it is unknown."""
        return self.settings.get(key, self.defaults.get(key))
