"""Index of datastreams by route and group, to compare one datastream with thousands of others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from mirror.instance.discovery.route_watch import counted
from mirror.model.datastreams.datastream import Datastream
from mirror.model.identifiers import ClusterRef, DatastreamName, GroupName

_K = TypeVar("_K")
Way = tuple[ClusterRef, ClusterRef]
"""Source and destination, as named in definitions."""
_ByName = Mapping[DatastreamName, Datastream]


@dataclass(frozen=True, eq=False)
class ExistingDatastreams:
    """Index of existing datastreams. Immutable.

    Datastreams that are being deleted are only in `known`.
    """

    known: _ByName = field(default_factory=dict)
    by_way: Mapping[Way, _ByName] = field(default_factory=dict)
    by_group: Mapping[GroupName, _ByName] = field(default_factory=dict)

    def with_these(self, datastreams: Sequence[Datastream]) -> ExistingDatastreams:
        """Return an index of the given datastreams; their names must be unique.

        Unchanged entries are reused, so adding one datastream to thousands costs little more than a copy.
        """
        came = [datastream for datastream in datastreams if self.known.get(datastream.name) is not datastream]
        new = sum(datastream.name not in self.known for datastream in came)
        if not came and len(datastreams) == len(self.known):
            return self
        replaced = [self.known[datastream.name] for datastream in came if datastream.name in self.known]
        known = {**self.known, **{datastream.name: datastream for datastream in came}}
        if len(self.known) + new != len(datastreams):
            names = {datastream.name for datastream in datastreams}
            replaced += [self.known[name] for name in self.known.keys() - names]
            known = {name: datastream for name, datastream in known.items() if name in names}
        counting = counted(came)
        return ExistingDatastreams(
            known,
            _changed(
                self.by_way,
                replaced,
                counting,
                lambda datastream: (datastream.source, datastream.destination),
            ),
            _changed(self.by_group, replaced, counting, lambda datastream: datastream.group),
        )


def _changed(
    index: Mapping[_K, _ByName],
    replaced: Iterable[Datastream],
    came: Iterable[Datastream],
    key: Callable[[Datastream], _K],
) -> Mapping[_K, _ByName]:
    """Return the updated index. Only changed entries are copied."""
    touched: dict[_K, dict[DatastreamName, Datastream]] = {}

    def below(datastream: Datastream) -> dict[DatastreamName, Datastream]:
        if key(datastream) not in touched:
            touched[key(datastream)] = dict(index.get(key(datastream), {}))
        return touched[key(datastream)]

    for datastream in replaced:
        below(datastream).pop(datastream.name, None)
    for datastream in came:
        below(datastream)[datastream.name] = datastream
    return {name: members for name, members in {**index, **touched}.items() if members}
