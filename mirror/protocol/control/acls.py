"""Requests that list, create and delete the ACLs of topics."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any, Final, NamedTuple

from kafka.protocol import admin

from mirror.protocol.control.call import MANY_BYTES, Call
from mirror.protocol.control.rights import AclOperation

_TOPIC: Final = 2
_ANY: Final = 1
_VERSIONS: Final = (1, 3)
ALL_OPERATIONS: Final = 2
"""Number of the operation ALL, which includes every operation."""
ANY_HOST: Final = "*"
ALL_TOPICS: Final = "*"
"""Name in a literal ACL that applies to every topic."""
EVERYONE: Final = "User:*"
"""Principal in an ACL that applies to all principals."""


class Permission(IntEnum):
    """Permission type of an ACL, with its number in the protocol."""

    DENY = 2
    ALLOW = 3


class Pattern(IntEnum):
    """Pattern type of an ACL: how its resource name matches topics (KIP-290). `MATCHING`: only in requests,
    for the ACLs of all patterns that match a topic."""

    MATCHING = 2
    LITERAL = 3
    PREFIXED = 4


class TopicAcl(NamedTuple):
    """An ACL on topics. The numbers of operation, permission and pattern may be unknown to this version.

    `topic`: a name, a prefix, or `*` for all topics. `principal`: such as `User:alice`.
    """

    topic: str
    principal: str
    operation: int
    permission: int = Permission.DENY
    pattern: int = Pattern.LITERAL
    host: str = ANY_HOST

    def covers(self, topic: str) -> bool:
        """Return whether the ACL applies to a topic."""
        if self.pattern == Pattern.PREFIXED:
            return topic.startswith(self.topic)
        return self.pattern == Pattern.LITERAL and self.topic in (topic, ALL_TOPICS)


class AclOutcome(NamedTuple):
    """Result for one ACL. `matches`: number of ACLs that were found or deleted."""

    error: int
    message: str
    matches: int = 0


class ListedAcls(NamedTuple):
    """Response with ACLs on topics. Without ACLs if `error` is set."""

    error: int
    message: str
    acls: tuple[TopicAcl, ...]


def deny_write(topic: str, principal: str) -> TopicAcl:
    """Return the ACL that denies a principal to write to a topic, from every host."""
    return TopicAcl(topic, principal, AclOperation.WRITE)


def list_acls(topic: str | None = None) -> Call[ListedAcls]:
    """Return a request that lists the ACLs of a topic, or all ACLs. Requires Describe on the cluster.

    A cluster without an authorizer returns SECURITY_DISABLED.
    """

    fields = {
        "resource_type_filter": _TOPIC,
        "resource_name_filter": topic,
        "pattern_type_filter": _ANY if topic is None else Pattern.MATCHING,
        "principal_filter": None,
        "host_filter": None,
        "operation": _ANY,
        "permission_type": _ANY,
    }

    def read(response: Any) -> ListedAcls:
        acls = tuple(
            TopicAcl(
                resource.resource_name,
                acl.principal,
                acl.operation,
                acl.permission_type,
                resource.pattern_type,
                acl.host,
            )
            for resource in response.resources
            for acl in resource.acls
        )
        return ListedAcls(response.error_code, response.error_message or "", acls)

    return Call(admin.DescribeAclsRequest, admin.DescribeAclsResponse, _VERSIONS, fields, read, MANY_BYTES)


def create_acls(acls: Sequence[TopicAcl]) -> Call[tuple[AclOutcome, ...]]:
    """Return a request that creates ACLs on the controller. Requires Alter on the cluster.

    Existing ACLs remain unchanged. The outcomes are in the order of `acls`.
    """

    creations = [
        {
            "resource_type": _TOPIC,
            "resource_name": acl.topic,
            "resource_pattern_type": acl.pattern,
            "principal": acl.principal,
            "host": acl.host,
            "operation": acl.operation,
            "permission_type": acl.permission,
        }
        for acl in acls
    ]

    def read(response: Any) -> tuple[AclOutcome, ...]:
        outcomes = [AclOutcome(result.error_code, result.error_message or "") for result in response.results]
        return _complete(acls, outcomes)

    messages = (admin.CreateAclsRequest, admin.CreateAclsResponse)
    return Call(*messages, _VERSIONS, {"creations": creations}, read, MANY_BYTES)


def delete_acls(acls: Sequence[TopicAcl]) -> Call[tuple[AclOutcome, ...]]:
    """Return a request that deletes exactly the given ACLs on the controller. Requires Alter on the cluster.

    Missing ACLs are not an error. The outcomes are in the order of `acls`.
    """

    filters = [
        {
            "resource_type_filter": _TOPIC,
            "resource_name_filter": acl.topic,
            "pattern_type_filter": acl.pattern,
            "principal_filter": acl.principal,
            "host_filter": acl.host,
            "operation": acl.operation,
            "permission_type": acl.permission,
        }
        for acl in acls
    ]

    def read(response: Any) -> tuple[AclOutcome, ...]:
        return _complete(acls, [_deleted(result) for result in response.filter_results])

    messages = (admin.DeleteAclsRequest, admin.DeleteAclsResponse)
    return Call(*messages, _VERSIONS, {"filters": filters}, read, MANY_BYTES)


def _deleted(result: Any) -> AclOutcome:
    for part in (result, *result.matching_acls):
        if part.error_code:
            return AclOutcome(part.error_code, part.error_message or "")
    return AclOutcome(0, "", len(result.matching_acls))


def _complete(acls: Sequence[TopicAcl], outcomes: Sequence[AclOutcome]) -> tuple[AclOutcome, ...]:
    if len(outcomes) != len(acls):
        raise ValueError(f"response has {len(outcomes)} results for {len(acls)} ACLs")
    return tuple(outcomes)
