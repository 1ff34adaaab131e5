"""Caller of a change, and the check of the caller's rights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from mirror.model.bounds import LONGEST_NAME
from mirror.model.datastreams.datastream import Datastream
from mirror.model.identifiers import DatastreamName


@dataclass(frozen=True, slots=True)
class RequestedChange:
    """A requested change of a datastream, for the check of the caller's rights.

    `before`, `after`: the datastream before and after the change; None if missing or unreadable.
    `group_members`: other datastreams whose tasks or positions are affected.
    """

    name: DatastreamName
    before: Datastream | None
    after: Datastream | None
    group_members: tuple[Datastream, ...] = ()


class Rights(Protocol):
    """Rights of a caller to change datastreams."""

    def check(self, change: RequestedChange) -> None:
        """Raise Forbidden with the reason unless the change is allowed."""
        ...


class EveryRight:
    """Rights that allow every change: for the service itself, and for all callers without authentication."""

    def check(self, change: RequestedChange) -> None:
        """Permit every change, without a check."""


_EVERY: Final = EveryRight()


@dataclass(frozen=True, slots=True)
class Caller:
    """Caller of an operation.

    `name`: authenticated principal, empty without authentication. `remote`: remote address of the connection.
    `request_id`: id of the call in the log.
    """

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
        """Raise Forbidden unless the caller may make the change.

        `others`: returns all other datastreams. The caller also needs rights on datastreams whose tasks the
        change affects, and on datastreams whose consumer group a new datastream would use.
        """
        if isinstance(self.rights, EveryRight):
            return
        known = after or before
        members = tuple(
            other
            for other in others()
            if known and other.name != name and _concerns(known, other, before is None)
        )
        self.rights.check(RequestedChange(name, before, after, members))

    def signed(self, requested_by: str) -> str:
        """Return the name of the requester to store with a change.

        `requested_by`: unverified name from the request.
        """
        if not self.name or requested_by == self.name:
            return requested_by
        return f"{self.name} (for {requested_by})"[:LONGEST_NAME] if requested_by else self.name


def _concerns(known: Datastream, other: Datastream, is_new: bool) -> bool:
    """Return whether changing `known` may affect the datastream `other`.

    A common consumer group is sufficient, even if the sources differ, because a cluster may have two names.
    """
    return known.group == other.group or (is_new and known.consumer_group == other.consumer_group)


NOBODY_IN_PARTICULAR: Final = Caller()
