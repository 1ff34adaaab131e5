"""CreateAcls, DescribeAcls and DeleteAcls, for literal ACLs of topics."""

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
from tests.fakes.broker.state import Acl, ClusterState

_SECURITY_DISABLED = 54
_TOPIC = 2
_LITERAL = 3
_Resource = DescribeAclsResponse.DescribeAclsResource
_Deleted = DeleteAclsResponse.DeleteAclsFilterResult


def _error(state: ClusterState, asked: HandledRequest, topic: str | None) -> int:
    return asked.error(topic) or (0 if state.has_authorizer else _SECURITY_DISABLED)


def _create(state: ClusterState, asked: HandledRequest) -> Any:
    results = []
    for one in asked.message.creations:
        error = _error(state, asked, one.resource_name)
        assert (one.resource_type, one.resource_pattern_type) == (_TOPIC, _LITERAL)
        if not error:
            acl = Acl(one.resource_name, one.principal, one.host, one.operation, one.permission_type)
            state.acls.add(acl)
        results.append(
            CreateAclsResponse.AclCreationResult(error_code=error, error_message="refused" if error else None)
        )
    return CreateAclsResponse(results=results)


def _describe(state: ClusterState, asked: HandledRequest) -> Any:
    wanted = asked.message.resource_name_filter
    error = _error(state, asked, wanted)
    acls = [] if error else [acl for acl in sorted(state.acls) if wanted in (None, acl.topic)]
    resources = [
        _Resource(
            resource_type=_TOPIC,
            resource_name=topic,
            pattern_type=_LITERAL,
            acls=[
                _Resource.AclDescription(
                    principal=acl.principal,
                    host=acl.host,
                    operation=acl.operation,
                    permission_type=acl.permission,
                )
                for acl in acls
                if acl.topic == topic
            ],
        )
        for topic in sorted({acl.topic for acl in acls})
    ]
    return DescribeAclsResponse(
        error_code=error, error_message="refused" if error else None, resources=resources
    )


def _delete(state: ClusterState, asked: HandledRequest) -> Any:
    results = []
    for one in asked.message.filters:
        error = _error(state, asked, one.resource_name_filter)
        acl = Acl(
            one.resource_name_filter,
            one.principal_filter,
            one.host_filter,
            one.operation,
            one.permission_type,
        )
        found = not error and acl in state.acls
        if found:
            state.acls.discard(acl)
        results.append(
            _Deleted(
                error_code=error,
                error_message="refused" if error else None,
                matching_acls=[_deleted(acl)] if found else [],
            )
        )
    return DeleteAclsResponse(filter_results=results)


def _deleted(acl: Acl) -> Any:
    return _Deleted.DeleteAclsMatchingAcl(
        error_code=0,
        error_message=None,
        resource_type=_TOPIC,
        resource_name=acl.topic,
        pattern_type=_LITERAL,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


HANDLERS = (
    Handler(CreateAclsRequest, CreateAclsResponse, (1, 3), _create),
    Handler(DescribeAclsRequest, DescribeAclsResponse, (1, 3), _describe),
    Handler(DeleteAclsRequest, DeleteAclsResponse, (1, 3), _delete),
)
