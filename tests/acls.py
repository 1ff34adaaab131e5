"""ACLs of a broker with an authorizer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from tests.kafka_data import admin_client
from tests.patience import PATIENCE_SECONDS, wait_until

PERMISSIVE: Final[Mapping[str, object]] = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
"""Broker settings that allow everything that no ACL denies."""


def add_rules(admin: AdminClient, rules: Sequence[AclBinding]) -> None:
    """Create ACLs and wait until the broker applies them, which is later than in its controller."""
    for future in admin.create_acls(list(rules)).values():
        future.result(PATIENCE_SECONDS)
    for rule in rules:
        exactly = AclBindingFilter(
            *(rule.restype, rule.name, rule.resource_pattern_type, rule.principal, rule.host),
            *(rule.operation, rule.permission_type),
        )
        wait_until(partial(_known, admin, exactly), f"{rule} is in force")


def remove_rules(admin: AdminClient, wanted: AclBindingFilter) -> None:
    """Delete all matching ACLs and wait until they are no longer in force."""
    for future in admin.delete_acls([wanted]).values():
        future.result(PATIENCE_SECONDS)
    wait_until(lambda: not _known(admin, wanted), "the rules are no longer in force")


def _known(admin: AdminClient, wanted: AclBindingFilter) -> bool:
    return bool(admin.describe_acls(wanted).result(PATIENCE_SECONDS))


class Forbidden:
    """Context that denies everyone an operation on a topic."""

    def __init__(self, address: str, topic: str, operation: AclOperation) -> None:
        self._admin = admin_client(address)
        self._what = (ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, "User:*", "*", operation)

    def __enter__(self) -> None:
        add_rules(self._admin, [AclBinding(*self._what, AclPermissionType.DENY)])

    def __exit__(self, *_: object) -> None:
        remove_rules(self._admin, AclBindingFilter(*self._what, AclPermissionType.DENY))
