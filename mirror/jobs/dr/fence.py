"""Fences a cluster: creates ACLs that deny Write to the principals of producers."""

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
"""Maximum number of ACLs in one request."""
_OWN: Final = frozenset({AclOperation.READ, AclOperation.WRITE})


def refuse_own(principals: Iterable[str], own: Iterable[str]) -> None:
    """Raise Refused if the principals include a principal of Headrace itself, or the wildcard `User:*`.

    ACLs do not apply to super users, and brokers do not disclose the names of super users. `watch_ends`
    detects writes of super users.
    """
    mine = {*own, EVERYONE}
    for principal in principals:
        if principal in mine:
            raise Refused(
                f"{principal} includes Headrace itself, which must write on both clusters",
                advice="give producers other principals, and list these in dr.NAME.principals",
            )


async def denials_at(cluster: Cluster, broker: int | None = None) -> frozenset[Denial]:
    """Return the existing ACLs that deny Write on a topic from all hosts.

    `broker`: broker to query; None queries any broker. Raises Refused if brokers have no authorizer,
    NotAuthorized, Unreachable.
    """
    found = await cluster.ask(list_acls(), broker)
    _require(cluster, AclOutcome(found.error, found.message), "cannot list ACLs", "Describe on the cluster")
    return frozenset(
        Denial(topic=acl.topic, principal=acl.principal)
        for acl in found.acls
        if acl == deny_write(acl.topic, acl.principal)
    )


async def deny(cluster: Cluster, denials: Sequence[Denial]) -> None:
    """Create ACLs that deny Write, and check that every broker applies them.

    Raises TimedOut if a broker does not apply them yet, Refused, NotAuthorized, Unreachable.
    """
    await _change(cluster, denials, create_acls, "cannot create ACLs")
    await cluster.refresh(())
    for broker in sorted(cluster.brokers):
        missing = set(denials) - await denials_at(cluster, broker)
        if missing:
            named = first_few(sorted({denial.topic for denial in missing}))
            raise TimedOut(f"broker {broker} of {cluster.name} does not deny Write on {named} yet")


async def require_own_rights(cluster: Cluster, topics: Sequence[str]) -> None:
    """Raise Refused if Headrace has no right to read and write the topics. Raises Unreachable.

    With `allow.everyone.if.no.acl.found`, the first ACL on a topic excludes all principals that no ACL
    allows, perhaps also Headrace.
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
                    f"{cluster.principal} has no right to read and write {topic} of {cluster.name} while the"
                    " fence denies Write to producers",
                    advice="grant Read and Write by ACLs; allow.everyone.if.no.acl.found applies only to"
                    " topics without any ACL",
                )


async def allow(cluster: Cluster, denials: Sequence[Denial]) -> None:
    """Delete ACLs that deny Write. Missing ACLs are ignored. Raises Refused, NotAuthorized, Unreachable."""
    await _change(cluster, denials, delete_acls, "cannot delete ACLs")


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
    where = f"{doing} on {cluster.name}"
    if outcome.error == Code.SECURITY_DISABLED:
        raise Refused(
            f"{where}: its brokers have no authorizer",
            advice="remove dr.NAME.principals, and stop the producers yourself",
        )
    if outcome.error:
        raise cluster.error(outcome.error, where, right, outcome.message)
