"""DescribeAcls, CreateAcls and DeleteAcls for ACLs that deny everybody to write to a topic."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import (
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
)

from tests.fakes.broker.faults import HandledRequest
from tests.fakes.broker.handlers.entry import Handler
from tests.fakes.broker.state import ClusterState

_SECURITY_DISABLED = 54
_TOPIC, _LITERAL, _WRITE, _DENY = 2, 3, 4, 2
_EVERYBODY, _ANY = "User:*", "*"
_Filtered = DeleteAclsResponse.DeleteAclsFilterResult


def _error(state: ClusterState, asked: HandledRequest, name: str) -> int:
    return asked.error(name) or (_SECURITY_DISABLED if state.denied is None else 0)


def _check(kind: int, pattern: int, principal: str, host: str, operation: int, permission: int) -> None:
    found = (kind, pattern, principal, host, operation, permission)
    assert found == (_TOPIC, _LITERAL, _EVERYBODY, _ANY, _WRITE, _DENY)


def _check_filter(one: Any) -> None:
    _check(
        one.resource_type_filter,
        one.pattern_type_filter,
        one.principal_filter,
        one.host_filter,
        one.operation,
        one.permission_type,
    )


def _describe(state: ClusterState, asked: HandledRequest) -> Any:
    _check_filter(asked.message)
    name = asked.message.resource_name_filter
    error = _error(state, asked, name)
    resources = []
    if not error and state.denied is not None and name in state.denied:
        resource = DescribeAclsResponse.DescribeAclsResource
        acl = resource.AclDescription(
            principal=_EVERYBODY, host=_ANY, operation=_WRITE, permission_type=_DENY
        )
        resources = [resource(resource_type=_TOPIC, resource_name=name, pattern_type=_LITERAL, acls=[acl])]
    return DescribeAclsResponse(error_code=error, error_message=None, resources=resources)


def _create(state: ClusterState, asked: HandledRequest) -> Any:
    (one,) = asked.message.creations
    _check(
        one.resource_type,
        one.resource_pattern_type,
        one.principal,
        one.host,
        one.operation,
        one.permission_type,
    )
    error = _error(state, asked, one.resource_name)
    if not error and state.denied is not None:
        state.denied.add(one.resource_name)
    result = CreateAclsResponse.AclCreationResult(error_code=error, error_message=None)
    return CreateAclsResponse(results=[result])


def _delete(state: ClusterState, asked: HandledRequest) -> Any:
    (one,) = asked.message.filters
    _check_filter(one)
    name = one.resource_name_filter
    error = _error(state, asked, name)
    found = []
    if not error and state.denied is not None and name in state.denied:
        state.denied.remove(name)
        found = [
            _Filtered.DeleteAclsMatchingAcl(
                error_code=0,
                error_message=None,
                resource_type=_TOPIC,
                resource_name=name,
                pattern_type=_LITERAL,
                principal=_EVERYBODY,
                host=_ANY,
                operation=_WRITE,
                permission_type=_DENY,
            )
        ]
    result = _Filtered(error_code=error, error_message=None, matching_acls=found)
    return DeleteAclsResponse(filter_results=[result])


HANDLERS = (
    Handler(DescribeAclsRequest, DescribeAclsResponse, (1, 3), _describe),
    Handler(CreateAclsRequest, CreateAclsResponse, (1, 3), _create),
    Handler(DeleteAclsRequest, DeleteAclsResponse, (1, 3), _delete),
)
