"""The fence of a cluster: denials of Write for the principals of producers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from mirror.client.cluster import Cluster
from mirror.errors import Refused, TimedOut
from mirror.jobs.dr.operation import Denial
from mirror.protocol.codes import Code
from mirror.protocol.control.acls import (
    EVERYONE,
    AclOutcome,
    TopicAcl,
    create_acls,
    delete_acls,
    deny_write,
    list_acls,
)
from mirror.protocol.control.call import Call
from mirror.protocol.control.rights import AclOperation, topic_rights
from mirror.wording import first_few

_AT_ONCE: Final = 500
"""ACLs in one request."""
_NAMES_SHOWN: Final = 5
_OWN: Final = frozenset({AclOperation.READ, AclOperation.WRITE})


def refuse_own(principals: Iterable[str], own: Iterable[str]) -> None:
    """Raise Refused for principals that must not be fenced: our own, and everyone.

    Super users cannot be fenced either, but brokers do not disclose their names; `watch_ends` finds them.
    """
    mine = {*own, EVERYONE}
    for principal in principals:
        if principal in mine:
            raise Refused(
                f"{principal} includes Headrace itself, which must write at both clusters",
                advice="give producers principals of their own, and name these in dr.NAME.principals",
            )


async def denials_at(cluster: Cluster, broker: int | None = None) -> frozenset[Denial]:
    """Return the denials of Write in force, from every host, at a broker (None: any). Raises Refused without
    an authorizer, NotAuthorized, Unreachable."""
    found = await cluster.ask(list_acls(), broker)
    _require(cluster, AclOutcome(found.error, found.message), "listing ACLs", "Describe on the cluster")
    return frozenset(
        Denial(topic=acl.topic, principal=acl.principal)
        for acl in found.acls
        if acl == deny_write(acl.topic, acl.principal)
    )


async def deny(cluster: Cluster, denials: Sequence[Denial]) -> None:
    """Create denials, and wait until every broker has them. Raises Refused, NotAuthorized, Unreachable."""
    await _change(cluster, denials, create_acls, "creating ACLs")
    await cluster.refresh(())
    for broker in sorted(cluster.brokers):
        missing = set(denials) - await denials_at(cluster, broker)
        if missing:
            named = first_few(sorted({denial.topic for denial in missing}), _NAMES_SHOWN)
            raise TimedOut(f"broker {broker} of {cluster.name} does not apply the denials for {named} yet")


async def require_own_rights(cluster: Cluster, topics: Sequence[str]) -> None:
    """Raise Refused if we cannot read or write the topics.

    If the brokers allow everything without an ACL (`allow.everyone.if.no.acl.found`), the first denial on a
    topic excludes everyone. Raises Unreachable.
    """
    for start in range(0, len(topics), _AT_ONCE):
        found = await cluster.ask(topic_rights(topics[start : start + _AT_ONCE]))
        for topic, answer in found.items():
            if answer.error == Code.TOPIC_AUTHORIZATION_FAILED:
                lost = True
            else:
                lost = answer.rights is not None and not answer.rights >= _OWN
            if lost:
                raise Refused(
                    f"{cluster.principal} has no right to read and write {topic} of {cluster.name} behind the"
                    " fence",
                    advice="grant Read and Write by ACLs; allow.everyone.if.no.acl.found applies only to"
                    " topics without any ACL",
                )


async def allow(cluster: Cluster, denials: Sequence[Denial]) -> None:
    """Delete denials; missing ones are no error. Raises Refused, NotAuthorized, Unreachable."""
    await _change(cluster, denials, delete_acls, "deleting ACLs")


async def _change(
    cluster: Cluster,
    denials: Sequence[Denial],
    request: Callable[[Sequence[TopicAcl]], Call[tuple[AclOutcome, ...]]],
    doing: str,
) -> None:
    acls = [deny_write(denial.topic, denial.principal) for denial in denials]
    for start in range(0, len(acls), _AT_ONCE):
        for outcome in await cluster.ask_controller(request(acls[start : start + _AT_ONCE])):
            _require(cluster, outcome, doing, "Alter on the cluster")


def _require(cluster: Cluster, outcome: AclOutcome, doing: str, right: str) -> None:
    where = f"{doing} of {cluster.name}"
    if outcome.error == Code.SECURITY_DISABLED:
        raise Refused(
            f"{where}: its brokers have no authorizer",
            advice="remove dr.NAME.principals, and stop the producers yourself",
        )
    if outcome.error:
        raise cluster.error(outcome.error, where, right, outcome.message)
