"""Permissions of principals, and reasons for rejection. Pure.

| role | may |
|---|---|
| viewer | read everything |
| owner | also change the datastreams of its owners |
| operator | also act on every datastream: create, change, pause, move, delete; select internal topics |
| admin | also change the owner of a datastream |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from mirror.control.caller import RequestedChange
from mirror.errors import Forbidden
from mirror.model.bounds import shown
from mirror.model.datastreams.datastream import Datastream
from mirror.model.datastreams.metadata import GROUP_ID


class Role(StrEnum):
    """Roles of principals, in ascending order of permissions."""

    VIEWER = "viewer"
    OWNER = "owner"
    OPERATOR = "operator"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Principal:
    """Authenticated identity of a caller.

    `owners`: for the role owner, the values of `metadata.owner` whose datastreams the principal may change.
    """

    name: str
    role: Role
    owners: frozenset[str] = frozenset()


class Action(StrEnum):
    """Actions that need permission. Each role permits a part of the actions."""

    HEALTH = "read the health"
    METRICS = "read the metrics"
    READ = "read"
    PAGES = "read the pages"
    CHANGE = "change"
    HAND_OVER = "change the owner of"
    COMMIT_AS = "choose the consumer group of"
    COPY_INTERNAL = "select internal topics in"
    READ_GROUPS = "read positions of every consumer group of the topics of"


_LEAST: Final[Mapping[Action, Role]] = {
    Action.HEALTH: Role.VIEWER,
    Action.METRICS: Role.VIEWER,
    Action.READ: Role.VIEWER,
    Action.PAGES: Role.VIEWER,
    Action.CHANGE: Role.OWNER,
    Action.HAND_OVER: Role.OWNER,
    Action.COMMIT_AS: Role.OPERATOR,
    Action.COPY_INTERNAL: Role.OPERATOR,
    Action.READ_GROUPS: Role.OPERATOR,
}
"""Minimum role for each action."""

_EVERYWHERE: Final[Mapping[Action, Role]] = {
    **_LEAST,
    Action.CHANGE: Role.OPERATOR,
    Action.HAND_OVER: Role.ADMIN,
}
"""Minimum role for an action on the datastreams of any owner."""

RANK: Final = {role: rank for rank, role in enumerate(Role)}
_NO_OWNER: Final = ""


def reason_against(principal: Principal, action: Action, owners: frozenset[str] | None = None) -> str:
    """Return the reason why an action is forbidden, or an empty text.

    `owners`: owners of all affected datastreams, with an empty text for an unknown owner. None means that the
    datastreams are not known yet, so that only the role is checked.
    """
    least, everywhere = _LEAST[action], _EVERYWHERE[action]
    if RANK[principal.role] >= RANK[everywhere]:
        return ""
    if RANK[principal.role] < RANK[least]:
        return f"{_named(principal)} may not {action} datastreams: requires role {least}"
    if owners is None or (_NO_OWNER not in owners and owners <= principal.owners):
        return ""
    foreign = ", ".join(
        sorted(shown(owner) if owner else "an unknown owner" for owner in owners - principal.owners)
    )
    return (
        f"{_named(principal)} may not {action} datastreams owned by {foreign}: requires role {everywhere}"
        f" or a token for that owner"
    )


@dataclass(frozen=True, slots=True)
class PrincipalRights:
    """Rights of a principal. Satisfies `mirror.control.caller.Rights`."""

    principal: Principal

    def check(self, change: RequestedChange) -> None:
        """Raise Forbidden if the principal lacks a permission that the change requires."""
        for action, owners in asked_for(change):
            if reason := reason_against(self.principal, action, owners):
                raise Forbidden(reason)


def asked_for(change: RequestedChange) -> list[tuple[Action, frozenset[str]]]:
    """Return the actions that a change requires, each with the owners on whose datastreams it acts."""
    sides = [definition for definition in (change.before, change.after) if definition is not None]
    owners = frozenset(side.owner for side in sides) or frozenset({_NO_OWNER})
    needed = [(Action.CHANGE, owners | frozenset(member.owner for member in change.group_members))]
    if change.before is not None and len(owners) > 1:
        needed = [(Action.HAND_OVER, owners), *needed[1:]]
        if change.group_members:
            needed.append((Action.CHANGE, frozenset(member.owner for member in change.group_members)))
    if change.after is not None and _commits_elsewhere(change.before, change.after):
        needed.append((Action.COMMIT_AS, owners))
    if change.after is not None and _selects_internal(change.before, change.after):
        needed.append((Action.COPY_INTERNAL, owners))
    return needed


def _commits_elsewhere(before: Datastream | None, after: Datastream) -> bool:
    """Return whether a change sets a consumer group that was not set before and is not the datastream's
    name."""
    group = after.metadata.get(GROUP_ID)
    if not group or group == after.name:
        return False
    return before is None or before.metadata.get(GROUP_ID) != group


def _selects_internal(before: Datastream | None, after: Datastream) -> bool:
    """Return whether a change selects internal topics (of Kafka and its tools) for the first time."""
    if not after.selection.internal:
        return False
    return before is None or before.selection != after.selection


def _named(principal: Principal) -> str:
    return f"{principal.name} (role {principal.role})"
