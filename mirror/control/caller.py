"""Who asks for a change, and what that change concerns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from mirror.model.bounds import LONGEST_NAME
from mirror.model.datastreams.datastream import Datastream
from mirror.model.identifiers import DatastreamName


@dataclass(frozen=True, slots=True)
class AskedChange:
    """What somebody asks for. `before` and `after`: the datastream as it is and as it would be; None where it
    is not there, or cannot be read. `mates`: others whose tasks, or positions, it concerns."""

    name: DatastreamName
    before: Datastream | None
    after: Datastream | None
    mates: tuple[Datastream, ...] = ()


class Rights(Protocol):
    """What a caller may do."""

    def check(self, change: AskedChange) -> None:
        """Raises Forbidden with the reason."""
        ...


class EveryRight:
    """Satisfies `Rights`: of the service itself, and of everybody where nobody is asked who they are."""

    def check(self, change: AskedChange) -> None:
        """Nothing is refused."""


_EVERY: Final = EveryRight()


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, as the service has made sure of it. `name`: of the principal; empty where nobody is asked who
    they are. `remote`: the other end of the connection. `request_id`: what the log has of the call."""

    name: str = ""
    role: str = ""
    remote: str = ""
    request_id: str = ""
    rights: Rights = _EVERY

    def check(
        self,
        name: DatastreamName,
        before: Datastream | None,
        after: Datastream | None,
        others: Callable[[], Sequence[Datastream]],
    ) -> None:
        """Raises Forbidden. `others`: the datastreams among which are those whose tasks it concerns; and
        those as whose consumer group a new one would commit positions."""
        if isinstance(self.rights, EveryRight):
            return
        known = after or before
        mates = tuple(
            one for one in others() if known and one.name != name and _concerns(known, one, before is None)
        )
        self.rights.check(AskedChange(name, before, after, mates))

    def signed(self, said: str) -> str:
        """Who is kept as having asked. `said`: what the call says of itself, which proves nothing."""
        if not self.name or said == self.name:
            return said
        return f"{self.name} (for {said})"[:LONGEST_NAME] if said else self.name


def _concerns(known: Datastream, other: Datastream, is_new: bool) -> bool:
    """The consumer group counts whichever the source is: one cluster may have two names."""
    return known.group == other.group or (is_new and known.consumer_group == other.consumer_group)


NOBODY_IN_PARTICULAR: Final = Caller()
