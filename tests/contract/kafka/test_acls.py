"""ACLs of topics: listed, created twice, deleted twice, in force; refused without an authorizer."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mirror.protocol.codes import Code
from mirror.protocol.control.acls import (
    ALL_OPERATIONS,
    Permission,
    TopicAcl,
    create_acls,
    delete_acls,
    deny_write,
    list_acls,
)
from mirror.protocol.control.call import Call
from stack.kafka import KafkaCluster, NodePorts
from stack.server import Jvm
from tests.acls import PERMISSIVE
from tests.contract.kafka.asking import BrokerClient, settled
from tests.fakes.broker import batches
from tests.fakes.broker.cluster import FakeCluster, running
from tests.patience import wait_until

TOPIC_AUTHORIZATION_FAILED = 29


def ask(broker: BrokerClient, call: Call[Any], version: int) -> Any:
    """Send one of our calls and decode the response as Headrace does."""
    return call.read(broker.ask(call.message(version), call.response, version))


@pytest.fixture(params=["fake", pytest.param("real", marks=[pytest.mark.servers, pytest.mark.deep])])
def secured(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[BrokerClient, str]]:
    """Return a client of a broker with an authorizer, and the client's principal there."""
    if request.param == "fake":
        fake = FakeCluster("secured")
        fake.has_authorizer = True
        with running(fake):
            client = BrokerClient(fake.address)
            yield client, "User:contract"
            client.close()
        return
    cluster = KafkaCluster(
        *("secured", tmp_path, [NodePorts.free()]),
        jvm=Jvm(heap_mib=320, quick_start=True),
        properties=PERMISSIVE,
    )
    cluster.start()
    client = BrokerClient(cluster.address)
    yield client, "User:ANONYMOUS"
    client.close()
    cluster.kill()


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_denial_holds_until_it_is_deleted(
    secured: tuple[BrokerClient, str], topic: str, version: int
) -> None:
    broker, principal = secured
    topic = f"{topic}-{version}"
    broker.create_topic(topic)
    batch = batches.build([(0, b"k", b"v", ())])
    denials = [deny_write(topic, principal), deny_write(topic, "User:björn")]
    # Otherwise the first denial excludes everyone, in spite of allow.everyone.if.no.acl.found.
    everyone = TopicAcl(topic, "User:*", ALL_OPERATIONS, Permission.ALLOW)

    def listed() -> set[Any]:
        answer = ask(broker, list_acls(topic), version)
        assert answer.error == Code.NONE
        return set(answer.acls)

    assert broker.produce(topic, batch)[0] == 0
    for _ in range(2):
        assert [one.error for one in ask(broker, create_acls([everyone, *denials]), version)] == [0, 0, 0]
    wait_until(lambda: listed() == {everyone, *denials}, "the denials are listed")
    assert settled(partial(broker.produce, topic, batch), {0})[0] == TOPIC_AUTHORIZATION_FAILED
    allowed = deny_write(topic, principal)._replace(permission=Permission.ALLOW)
    assert [one.matches for one in ask(broker, delete_acls([allowed]), version)] == [0]
    assert [one.matches for one in ask(broker, delete_acls(denials[:1]), version)] == [1]
    wait_until(lambda: listed() == {everyone, denials[1]}, "the other denial remains")
    assert settled(partial(broker.produce, topic, batch), {TOPIC_AUTHORIZATION_FAILED})[0] == 0
    assert [one.matches for one in ask(broker, delete_acls(denials), version)] == [0, 1]


def test_a_broker_without_an_authorizer_refuses(broker: BrokerClient, topic: str) -> None:
    denial = deny_write(topic, "User:alice")
    assert ask(broker, list_acls(), 3).error == Code.SECURITY_DISABLED
    assert ask(broker, create_acls([denial]), 3)[0].error == Code.SECURITY_DISABLED
    assert ask(broker, delete_acls([denial]), 3)[0].error == Code.SECURITY_DISABLED
