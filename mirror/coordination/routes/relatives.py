"""Selects the topic names to check for loops and duplicate copies of a new datastream. Pure.

Copying adds prefixes to topic names. Names that differ only in such prefixes have the same stem. Topics with
other stems cannot return through the new datastream, and the new datastream cannot write them twice. They are
therefore not checked. Every name has exactly one stem if every destination name is `*` or a prefix, and no
prefix starts with another prefix. Otherwise, all topics are checked.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import pairwise
from typing import Final

from mirror.model.topics import PLACEHOLDER, TopicNaming, TopicSelection

Way = tuple[str, str, TopicNaming]
"""Source cluster, destination cluster, and naming at the destination."""

_MOST_FORMS: Final = 64
"""Maximum number of names that repeated copying may give to one topic. Each name must be tested."""
_MOST_STEMS: Final = 100
"""Maximum number of suffixes with which names are compared."""


def relatives(selection: TopicSelection, ways: Iterable[Way], names: Collection[str]) -> Collection[str]:
    """Return the names that equal a topic of the new datastream, apart from prefixes added by copying.

    `ways`: all datastreams that can copy records back, including the new one. Returns all names if stems are
    ambiguous, or if there are too many paths through the clusters.
    """
    ways = frozenset(ways)
    prefixes = _prefixes(ways)
    forms = _forms(ways) if prefixes is not None else None
    if prefixes is None or forms is None:
        return names
    forward = {form + name: name for form in forms for name in names}
    stems = {_stem(forward[topic], prefixes) for topic in selection.choose(forward)}
    behind = {shorter: name for name in names for shorter in _stripped(name, prefixes)}
    stems |= {_stem(topic, prefixes) for topic in selection.choose(behind)}
    endings = tuple(stems) if len(stems) <= _MOST_STEMS else ""
    return [name for name in names if name.endswith(endings) and _stem(name, prefixes) in stems]


def _prefixes(ways: Iterable[Way]) -> tuple[str, ...] | None:
    """Return the prefixes that datastreams add to topic names.

    Returns None if a name may have several stems.
    """
    before = set()
    for _, _, naming in ways:
        prefix, suffix = naming.template.split(PLACEHOLDER)
        if suffix:
            return None
        before.add(prefix)
    prefixes = tuple(sorted(before - {""}))
    is_certain = not any(longer.startswith(shorter) for shorter, longer in pairwise(prefixes))
    return prefixes if is_certain else None


def _stripped(name: str, prefixes: tuple[str, ...]) -> list[str]:
    """Return the topic names from which copying may have derived this name, longest first."""
    found = []
    while name.startswith(prefixes):
        prefix = next(prefix for prefix in prefixes if name.startswith(prefix))
        if len(name) == len(prefix):
            break
        name = name[len(prefix) :]
        found.append(name)
    return found


def _stem(name: str, prefixes: tuple[str, ...]) -> str:
    return (_stripped(name, prefixes) or [name])[-1]


def _forms(ways: frozenset[Way]) -> frozenset[str] | None:
    """Return the prefixes that repeated copying may add to a topic name. A path visits each cluster once, and
    may have one copy within a cluster. Returns None if there are too many prefixes."""
    onward: dict[str, list[tuple[str, str]]] = {}
    for source, destination, naming in ways:
        onward.setdefault(source, []).append((destination, naming.template.removesuffix(PLACEHOLDER)))
    found = {""}
    left: list[tuple[str, tuple[str, ...], str]] = [(cluster, (cluster,), "") for cluster in onward]
    steps = 0
    while left:
        cluster, seen, form = left.pop()
        for destination, prefix in onward.get(cluster, ()):
            is_within = destination == cluster and seen[-2:] != (cluster, cluster)
            if is_within or destination not in seen:
                found.add(prefix + form)
                left.append((destination, (*seen, destination), prefix + form))
                steps += 1
        if len(found) > _MOST_FORMS or steps > _MOST_FORMS * _MOST_FORMS:
            return None
    return frozenset(found)
