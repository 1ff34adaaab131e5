"""Which topic names can matter for one new datastream. Pure.

Copies give topics longer names: the names that copies may turn into one another have one stem. Names of
other stems can neither return by the new datastream nor be written by it twice, so that nobody has to look
at them. This is only told where every template is `*` or a prefix and no prefix begins with another: then a
name has one stem, whichever way it came.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import pairwise
from typing import Final

from mirror.model.topics import PLACEHOLDER, TopicNaming, TopicSelection

Way = tuple[str, str, TopicNaming]
"""Source cluster, destination cluster, and how topics are named there."""

_MOST_FORMS: Final = 64
"""Names that one topic may get by being copied on and on, which are tried one by one."""
_MOST_STEMS: Final = 100
"""Endings that names are compared with one by one."""


def relatives(selection: TopicSelection, ways: Iterable[Way], names: Collection[str]) -> Collection[str]:
    """Those of the names that have a stem in common with what a new datastream may ever select.

    `ways`: those of all datastreams that can bring something back, the new one's included. Returns all names
    where stems are not certain, or where there are too many ways through the clusters to follow.
    """
    ways = frozenset(ways)
    prefixes = _prefixes(ways)
    forms = _forms(ways) if prefixes is not None else None
    if prefixes is None or forms is None:
        return names
    forward = {form + name: name for form in forms for name in names}
    stems = {_stem(forward[one], prefixes) for one in selection.choose(forward)}
    behind = {shorter: name for name in names for shorter in _stripped(name, prefixes)}
    stems |= {_stem(one, prefixes) for one in selection.choose(behind)}
    endings = tuple(stems) if len(stems) <= _MOST_STEMS else ""
    return [one for one in names if one.endswith(endings) and _stem(one, prefixes) in stems]


def _prefixes(ways: Iterable[Way]) -> tuple[str, ...] | None:
    """What templates put before a name; None: a name may have several stems."""
    before = set()
    for _, _, naming in ways:
        prefix, suffix = naming.template.split(PLACEHOLDER)
        if suffix:
            return None
        before.add(prefix)
    prefixes = tuple(sorted(before - {""}))
    is_certain = not any(longer.startswith(one) for one, longer in pairwise(prefixes))
    return prefixes if is_certain else None


def _stripped(name: str, prefixes: tuple[str, ...]) -> list[str]:
    """The names that this one may be a copy of, the longest first."""
    found = []
    while name.startswith(prefixes):
        prefix = next(one for one in prefixes if name.startswith(one))
        if len(name) == len(prefix):
            break
        name = name[len(prefix) :]
        found.append(name)
    return found


def _stem(name: str, prefixes: tuple[str, ...]) -> str:
    return (_stripped(name, prefixes) or [name])[-1]


def _forms(ways: frozenset[Way]) -> frozenset[str] | None:
    """What may stand before a topic's name after it has been copied on and on: no record comes to a cluster
    twice, but for one copy within it. None: there are too many."""
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
