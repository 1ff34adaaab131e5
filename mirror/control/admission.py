"""Decides which clusters a datastream may read and write, and whether it may adopt existing topics. Pure.

With authentication, rights belong to the principal, because callers can specify any owner. Without
authentication, rights belong to the owner. The rules are checked when a datastream is created or a relevant
field changes. Stored datastreams continue to run even if they would now be rejected; `objection` describes
the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import partial
from typing import Final, NamedTuple

from mirror.control.owner_quotas import Counts, OwnerQuota, waiting_for_quota
from mirror.coordination.partition_selection import IncompleteTopic
from mirror.errors import FieldProblem, InvalidRequest
from mirror.model.bounds import shown
from mirror.model.clusters import bootstrap_servers, is_address, is_like
from mirror.model.datastreams.change import FieldProblems
from mirror.model.datastreams.datastream import Datastream, check_name
from mirror.model.datastreams.metadata import GROUP_ID, OWNER, TASK_PREFIX
from mirror.model.datastreams.secrets import holds_secret, secret_problem
from mirror.model.documents import pointer_to
from mirror.model.expressions import require_topic_characters
from mirror.model.identifiers import ClusterRef, DatastreamName, GroupName
from mirror.model.load import MOST_TASKS
from mirror.model.look_alikes import check_look
from mirror.wording import counted

LONGEST_EXPRESSION: Final = 4_096
"""Maximum size in bytes of a topic expression of a new datastream, enough for several hundred topic names.

Expressions that were stored before this limit existed may be longer.
"""

_EVERYBODY: Final = ("*",)
_MAY_BE_UNSAID: Final = frozenset({"placement strategy", "load provider"})
"""Attributes that a new member of a group may omit. An omitted option has the value of the other members."""
_MAY_DIFFER: Final = frozenset({"limits"})
"""Attributes in which the datastreams of a group may differ. The strictest value applies."""
_MOST_TASKS: Final = "request fewer tasks, or have an operator raise mirror.definitions.most_tasks"


class ClusterUse(StrEnum):
    """What a datastream does with a cluster."""

    READ = "read"
    WRITE = "write"
    """Create topics on the cluster, and copy into them."""
    ADOPT = "adopt"
    """Copy into existing topics of the cluster, and add partitions to them."""


@dataclass(frozen=True, slots=True)
class ClusterRights:
    """Names (owners, principals or `*`) with access to one cluster. `*` matches any text.

    `groups`: consumer groups under which datastreams may commit positions. A datastream may use only a group
    with its own name. Readers of the datastream may read the positions of these groups.
    """

    readers: Sequence[str] = _EVERYBODY
    writers: Sequence[str] = _EVERYBODY
    adopters: Sequence[str] = _EVERYBODY
    groups: Sequence[str] = _EVERYBODY

    def names(self, access: ClusterUse) -> Sequence[str]:
        """Return the names that have this kind of access."""
        return {
            ClusterUse.READ: self.readers,
            ClusterUse.WRITE: self.writers,
            ClusterUse.ADOPT: self.adopters,
        }[access]

    @property
    def is_restricted(self) -> bool:
        """True if any kind of access to the cluster is restricted."""
        return not all("*" in names for names in (*map(self.names, ClusterUse), self.groups))

    def has_group(self, group: str) -> bool:
        """Return whether datastreams may commit positions under a consumer group on this cluster."""
        return any(fnmatchcase(group, name) for name in self.groups)


SameAs = Callable[[ClusterRef, Collection[ClusterRef]], Collection[ClusterRef]]
"""Callback that returns the aliases that may refer to the same cluster as a reference. Includes all aliases
except those of clusters that are known to be different."""


class _Use(NamedTuple):
    """A cluster that a definition names. `pointer`: JSON pointer to the field with the name."""

    cluster: ClusterRef
    access: ClusterUse
    pointer: str


class _AdmissionProblem(NamedTuple):
    """Reason why a definition may not use a cluster."""

    use: _Use
    detail: str
    advice: str


@dataclass(frozen=True)
class Admission:
    """Rules for new and changed definitions.

    `clusters`: configured clusters by alias. `addresses`: patterns of other permitted addresses.
    `most_tasks`: maximum number of tasks of a datastream. `knows_callers`: True if rights belong to
    principals, which stored definitions do not contain. `quotas`: quotas by owner. `strategies`, `providers`:
    return the names of available placement strategies and load providers. `transforms`: rejects transforms.
    """

    clusters: Mapping[ClusterRef, ClusterRights] = field(default_factory=dict)
    addresses: Sequence[str] = ()
    most_tasks: int = MOST_TASKS
    knows_callers: bool = False
    quotas: Mapping[str, OwnerQuota] = field(default_factory=dict)
    strategies: Callable[[], Collection[str]] = lambda: ()
    providers: Callable[[], Collection[str]] = lambda: ()
    transforms: Callable[[Sequence[str]], None] = lambda _: None

    def reason(self, owner: str, alias: ClusterRef, access: ClusterUse) -> str | None:
        """Return why an owner or principal lacks access to a configured cluster, or None if access is
        permitted."""
        names = self._rights(alias).names(access)
        if any(name == "*" or fnmatchcase(owner, name) for name in names):
            return None
        use = {
            ClusterUse.READ: "read from",
            ClusterUse.WRITE: "write to",
            ClusterUse.ADOPT: "write to existing topics of",
        }[access]
        return f"{shown(owner)} may not {use} cluster {alias}"

    def check(self, new: Datastream, former: Datastream | None, same_as: SameAs, principal: str = "") -> None:
        """Check a new or changed definition against the rules of admission. Raises InvalidRequest with every
        invalid field.

        `former`: the definition before a change. Unchanged parts are not checked. `principal`: requester,
        empty without authentication.
        """
        found = FieldProblems()
        if former is None:
            _check_looks(new, found)
            for detail, advice in self._foreign_groups(new, same_as):
                found.refuse("/name", detail, advice)
        if former is None or _permission_key(former, principal) != _permission_key(new, principal):
            for use, detail, advice in self._problems(new, same_as, principal or new.owner):
                found.refuse(use.pointer, detail, advice)
        _check_owner(new, former, found)
        _check_expressions(new, former, found)
        _check_secrets(new, former, found)
        if former is None or former.limits != new.limits:
            for key in ("min_tasks", "max_tasks"):
                if (getattr(new.limits, key) or 0) > self.most_tasks:
                    found.refuse(
                        f"/limits/{key}",
                        f"a datastream may have at most {counted(self.most_tasks, 'task')}",
                        _MOST_TASKS,
                    )
        self._check_plug_ins(new, former, found)
        found.check(InvalidRequest)

    def _check_plug_ins(self, new: Datastream, former: Datastream | None, found: FieldProblems) -> None:
        """Check the newly selected plug-ins of a definition. Unchanged names are not checked."""
        for key, kind, names in (
            ("strategy", "placement strategy", self.strategies),
            ("load_provider", "load provider", self.providers),
        ):
            name = getattr(new.placement, key)
            is_new = former is None or getattr(former.placement, key) != name
            if is_new and name is not None and name not in (known := names()):
                advice = f"available: {', '.join(known)}" if known else ""
                found.refuse(f"/placement/{key}", f"there is no {kind} {shown(name)}", advice)
        if new.policy.transforms != (former.policy.transforms if former is not None else ()):
            found.attempt("/policies/transforms", partial(self.transforms, new.policy.transforms), None)

    def check_clusters(
        self, datastream: Datastream, clusters: Collection[ClusterRef], same_as: SameAs, principal: str = ""
    ) -> None:
        """Check that a stored datastream may use the given clusters. Raises InvalidRequest."""
        found = FieldProblems()
        for use, detail, advice in self._problems(
            datastream, same_as, principal or datastream.owner, clusters
        ):
            found.refuse(use.pointer, detail, advice)
        found.check(InvalidRequest)

    def objection(self, stored: Datastream) -> str:
        """Return why a stored definition would be rejected if it were new, or an empty string. Clusters are
        compared by name only."""
        owned = () if self.knows_callers else self._problems(stored, _no_alias, stored.owner)
        problems = [detail for _, detail, _ in owned]
        problems += [detail for detail, _ in self._foreign_groups(stored, _no_alias)]
        problems += [
            secret_problem(key) for key, value in stored.metadata.items() if holds_secret(key, value)
        ]
        return f"{problems[0]}; it continues to run, but cannot be created again" if problems else ""

    def refusal(self, stored: Datastream) -> str:
        """Return why a stored datastream cannot be mirrored, or an empty string. The only reason is a cluster
        that is no longer configured."""
        uses = (use for use in _uses(stored) if use.access is not ClusterUse.ADOPT)
        return next((problem.detail for use in uses if (problem := self._unknown(use))), "")

    def adopts(self, datastream: Datastream, same_as: SameAs) -> bool:
        """Return whether a datastream may write to existing topics at its destination.

        If `datastream.adopts` is None, existing topics are permitted only if everyone may adopt topics.
        """
        if datastream.adopts is not None:
            return datastream.adopts
        aliases = self._aliases(datastream.destination, same_as)
        return all("*" in self._rights(alias).adopters for alias in aliases)

    @property
    def limits_partitions(self) -> bool:
        """True if any owner has a quota of partitions."""
        return any(quota.partitions for quota in self.quotas.values())

    def waiting(
        self, selected: Sequence[tuple[Datastream, Counts]], held: Mapping[GroupName, Counts]
    ) -> Mapping[DatastreamName, Mapping[str, IncompleteTopic]]:
        """Return the topics of each datastream that its owner's quota does not permit to copy completely."""
        return waiting_for_quota(self.quotas, selected, held) if self.limits_partitions else {}

    def _problems(
        self,
        datastream: Datastream,
        same_as: SameAs,
        owner: str,
        clusters: Collection[ClusterRef] | None = None,
    ) -> list[_AdmissionProblem]:
        """Return the clusters that a datastream must not use, with reasons. `clusters`: clusters to check;
        None checks all."""
        found = []
        for use in _uses(datastream):
            if clusters is not None and use.cluster not in clusters:
                continue
            if use.access is not ClusterUse.ADOPT and (problem := self._unknown(use)):
                found.append(problem)
                continue
            for alias in self._aliases(use.cluster, same_as):
                reason = self.reason(owner, alias, use.access)
                if reason is not None:
                    same = "" if alias == use.cluster else f" (which {use.cluster} is, or may be)"
                    advice = f"ask the operator to change [clusters.{alias}] of the settings"
                    found.append(_AdmissionProblem(use, f"{reason}{same}", advice))
        return found

    def _foreign_groups(self, datastream: Datastream, same_as: SameAs) -> list[tuple[str, str]]:
        """Return a problem and advice for each cluster that forbids the datastream's consumer group.

        Datastreams commit their positions under a consumer group. A `group.id` other than the name of the
        datastream requires a separate right (`api.access.rights`).
        """
        if datastream.consumer_group != datastream.name:
            return []
        aliases = self._aliases(datastream.source, same_as)
        return [
            (
                f"the consumer group {shown(datastream.consumer_group)} of its positions is not allowed"
                f" for datastreams on cluster {alias}",
                f"choose a name that matches one of: {', '.join(map(shown, rights.groups)) or 'none'}"
                f" ([clusters.{alias}] groups), or have an operator set {GROUP_ID}",
            )
            for alias in aliases
            if (rights := self.clusters.get(alias)) and not rights.has_group(datastream.consumer_group)
        ]

    def hidden_at(self, group: str, clusters: Sequence[ClusterRef], same_as: SameAs) -> ClusterRef | None:
        """Return the first cluster on which datastreams may not use a consumer group, or None."""
        aliases = (alias for cluster in clusters for alias in self._aliases(cluster, same_as))
        return next((alias for alias in aliases if not self._rights(alias).has_group(group)), None)

    def _rights(self, alias: ClusterRef) -> ClusterRights:
        return self.clusters.get(alias, ClusterRights())

    def _aliases(self, cluster: ClusterRef, same_as: SameAs) -> Collection[ClusterRef]:
        if not is_address(cluster):
            return (cluster,)
        restricted = [alias for alias, rights in self.clusters.items() if rights.is_restricted]
        return same_as(cluster, restricted) if restricted else ()

    def _unknown(self, use: _Use) -> _AdmissionProblem | None:
        role, cluster = use.pointer.split("/")[1], use.cluster
        known = ", ".join(sorted(self.clusters)) or "none"
        if cluster in self.clusters:
            return None
        if not is_address(cluster):
            detail = f"the {role} cluster {shown(cluster)} is not configured (known: {known})"
            return _AdmissionProblem(use, detail, "add it under [clusters]")
        if self._is_allowed(cluster):
            return None
        detail = (
            f"the {role} cluster {shown(cluster)} is not an address of a configured cluster (known: {known})"
        )
        advice = "use an alias, or have it added under [clusters] or allowed in mirror.definitions.addresses"
        return _AdmissionProblem(use, detail, advice)

    def _is_allowed(self, address: str) -> bool:
        servers = bootstrap_servers("the cluster", address)
        return all(any(is_like(server, pattern) for pattern in self.addresses) for server in servers)


def _no_alias(cluster: ClusterRef, aliases: Collection[ClusterRef]) -> Collection[ClusterRef]:
    """Return no aliases. Used if the cluster of an address is unknown."""
    return ()


def check_joining(new: Datastream, members: Iterable[Datastream]) -> None:
    """Check that a new datastream is compatible with the existing members of its group.

    Members share tasks, so they must have the same owner, policies, limits, start, placement strategy and
    load provider. Raises InvalidRequest.
    """
    for other in members:
        if differing := _differing(new, other):
            detail = (
                f"datastreams of group {other.group} must have the same {differing}, but that of {other.name}"
                " differs"
            )
            pointer = pointer_to(["metadata", TASK_PREFIX])
            raise InvalidRequest(
                detail,
                fields=[FieldProblem(pointer, detail)],
                advice=f"use the same value, or set another {TASK_PREFIX}",
            )


def check_staying(
    before: Datastream, new: Datastream, members: Iterable[tuple[Datastream, Datastream]]
) -> None:
    """Check that a changed datastream is still compatible with its group. Raises InvalidRequest.

    Compares owner, policies, start, placement strategy and load provider. `members`: the other members of the
    group, each before and after the change.
    """
    for other_before, other in members:
        if differing := _differing(new, other, _parted(before, other_before) | _MAY_DIFFER):
            raise InvalidRequest(
                f"all datastreams of group {other.group} must have the same {differing},"
                f" but those of {new.name} and {other.name} would differ",
                advice="change the group in one batch update (PUT /datastream?ids=List(…)), or create it"
                f" under another name with another {TASK_PREFIX}",
            )


def _parted(datastream: Datastream, other: Datastream) -> set[str]:
    """Return the attributes in which two members of a group differ, as earlier versions permitted."""
    theirs = _alike(other)
    return {
        trait
        for trait, value in _alike(datastream).items()
        if value != theirs[trait] and not (trait in _MAY_BE_UNSAID and None in (value, theirs[trait]))
    }


def _differing(new: Datastream, other: Datastream, but: Collection[str] = ()) -> str:
    """Return the first attribute that must be equal within a group but differs, or an empty string."""
    parted = _parted(new, other)
    return next((trait for trait in _alike(new) if trait in parted and trait not in but), "")


def _alike(datastream: Datastream) -> dict[str, object]:
    """Return the attributes that must be equal within a group, with the values of this datastream."""
    return {
        "owner": datastream.owner,
        "policy": datastream.policy,
        "limits": datastream.limits,
        "start": (datastream.start, datastream.start_ms),
        "placement strategy": datastream.placement.strategy,
        "load provider": datastream.placement.load_provider,
    }


def _uses(datastream: Datastream) -> list[_Use]:
    found = [
        _Use(datastream.source, ClusterUse.READ, "/source/cluster"),
        _Use(datastream.destination, ClusterUse.WRITE, "/destination/cluster"),
    ]
    if datastream.adopts:
        found.append(_Use(datastream.destination, ClusterUse.ADOPT, "/destination/adopt"))
    if datastream.grows_existing:
        found.append(_Use(datastream.destination, ClusterUse.ADOPT, "/destination/grow_existing"))
    return found


def _permission_key(datastream: Datastream, principal: str) -> tuple[object, ...]:
    """Return those parts of a definition whose change requires a new check of rights."""
    owner = "" if principal else datastream.owner
    return datastream.selection, owner, datastream.adopts, datastream.grows_existing


def _check_owner(new: Datastream, former: Datastream | None, found: FieldProblems) -> None:
    """Check an owner's name against the rules for datastream names and task prefixes."""
    if former is None or former.metadata.get(OWNER) != new.owner:
        found.attempt("/owner", lambda: check_name(new.owner, "an owner"), None)
        found.attempt("/owner", lambda: check_look(new.owner, "an owner"), None)


def _check_looks(new: Datastream, found: FieldProblems) -> None:
    found.attempt("/name", lambda: check_look(new.name, "a datastream"), None)
    if str(new.group) != str(new.name):
        pointer = pointer_to(["metadata", TASK_PREFIX])
        found.attempt(pointer, lambda: check_look(new.group, "a group of datastreams"), None)


def _check_expressions(new: Datastream, former: Datastream | None, found: FieldProblems) -> None:
    for field_name, key in (("include", "topics"), ("exclude", "exclude")):
        text = getattr(new.selection, field_name)
        size = len(text.encode())
        is_new = former is None or getattr(former.selection, field_name) != text
        if not is_new:
            continue
        found.attempt(f"/source/{key}", partial(require_topic_characters, key, text), None)
        if size > LONGEST_EXPRESSION:
            found.refuse(
                f"/source/{key}",
                f"the expression has {size} bytes",
                f"at most {LONGEST_EXPRESSION} are allowed; use several datastreams",
            )


def _check_secrets(new: Datastream, former: Datastream | None, found: FieldProblems) -> None:
    known = former.metadata if former is not None else {}
    for key, value in new.metadata.items():
        if known.get(key) != value and holds_secret(key, value):
            found.refuse(
                pointer_to(["metadata", key]),
                secret_problem(key),
                "put credentials under [clusters] of the settings; reference a file as ${file:…}",
            )
