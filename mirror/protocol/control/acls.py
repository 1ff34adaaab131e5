"""Requests for the ACL that denies everybody to write to a topic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from kafka.protocol.admin import (
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ACLResourceType,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
)

from mirror.protocol.control.call import Call

SECURITY_DISABLED: Final = 54
"""Error of a cluster without an authorizer."""
_EVERYBODY: Final = "User:*"
_EVERY_HOST: Final = "*"


class AclOutcome(NamedTuple):
    """Result of a request: error code, the broker's message, and the number of matching ACLs."""

    error: int
    message: str
    matches: int = 0


def find_denial(topic: str) -> Call[AclOutcome]:
    """Count the ACLs that deny everybody to write to exactly this topic. Requires Describe on the cluster."""
    return Call(
        DescribeAclsRequest,
        DescribeAclsResponse,
        (1, 3),
        lambda version: DescribeAclsRequest(**_filter(topic), version=version),
        lambda response: AclOutcome(
            response.error_code,
            response.error_message or "",
            sum(len(one.acls) for one in response.resources),
        ),
    )


def create_denial(topic: str) -> Call[AclOutcome]:
    """Deny everybody to write to a topic. Requires Alter on the cluster."""

    def build(version: int) -> Any:
        creation = CreateAclsRequest.AclCreation(
            resource_type=int(ACLResourceType.TOPIC),
            resource_name=topic,
            resource_pattern_type=int(ACLResourcePatternType.LITERAL),
            principal=_EVERYBODY,
            host=_EVERY_HOST,
            operation=int(ACLOperation.WRITE),
            permission_type=int(ACLPermissionType.DENY),
            version=version,
        )
        return CreateAclsRequest(creations=[creation], version=version)

    def read(response: Any) -> AclOutcome:
        return AclOutcome(response.results[0].error_code, response.results[0].error_message or "")

    return Call(CreateAclsRequest, CreateAclsResponse, (1, 3), build, read)


def delete_denial(topic: str) -> Call[AclOutcome]:
    """Delete the ACL of `create_denial`. Requires Alter on the cluster."""

    def build(version: int) -> Any:
        entry = DeleteAclsRequest.DeleteAclsFilter(**_filter(topic), version=version)
        return DeleteAclsRequest(filters=[entry], version=version)

    def read(response: Any) -> AclOutcome:
        found = response.filter_results[0]
        return AclOutcome(found.error_code, found.error_message or "", len(found.matching_acls))

    return Call(DeleteAclsRequest, DeleteAclsResponse, (1, 3), build, read)


def _filter(topic: str) -> Mapping[str, Any]:
    return {
        "resource_type_filter": int(ACLResourceType.TOPIC),
        "resource_name_filter": topic,
        "pattern_type_filter": int(ACLResourcePatternType.LITERAL),
        "principal_filter": _EVERYBODY,
        "host_filter": _EVERY_HOST,
        "operation": int(ACLOperation.WRITE),
        "permission_type": int(ACLPermissionType.DENY),
    }
