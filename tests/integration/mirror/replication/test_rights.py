"""The rights listed in docs/kafka-security.md are sufficient, and no others are requested."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)
from structlog.typing import EventDict

from mirror.adapters.kafka.loop_thread import LoopThread
from mirror.adapters.kafka.survey import ClusterSurvey, TopicFacts
from mirror.adapters.kafka_admin import KafkaAdmin
from mirror.adapters.metric_topic import placement_event_topic
from mirror.adapters.settings import KafkaCluster as ClusterSettings
from mirror.adapters.settings import KafkaSecurity
from mirror.adapters.system_clock import SystemClock
from mirror.client.access import ClusterAccess, endpoints
from mirror.model.metrics import ChangeKind, PlacementEvent
from mirror.model.topics import TopicDescription
from mirror.protocol.codes import Code
from mirror.protocol.control.rights import AclOperation as Right
from mirror.protocol.control.sasl import SaslAccess
from pmp.adapters.cluster_probe import KafkaClusterProbe
from stack.kafka import KafkaCluster, NodePorts
from stack.server import Jvm
from tests.acls import add_rules, remove_rules
from tests.engines import SOURCE, EngineUnderTest, check_copy, write
from tests.kafka_data import Record, admin_client, counts, make_topic
from tests.patience import PATIENCE_SECONDS, eventually

pytestmark = [pytest.mark.servers, pytest.mark.deep]

NOW = int(time.time() * 1000)
_LISTENER = "SASL_PLAINTEXT"
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_USERS = 'username="x" password="x" user_reader="right" user_writer="right" user_sampler="right"'

TOPIC, CLUSTER, TRANSACTION = ResourceType.TOPIC, ResourceType.BROKER, ResourceType.TRANSACTIONAL_ID
READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE
CREATE, ALTER, SETTINGS = AclOperation.CREATE, AclOperation.ALTER, AclOperation.DESCRIBE_CONFIGS

Rights = Sequence[tuple[ResourceType, str, Sequence[AclOperation]]]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """Start a broker that allows operations only to unauthenticated clients."""
    login = f"listener.name.{_LISTENER.lower()}.plain.sasl.jaas.config"
    properties: dict[str, object] = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "sasl.enabled.mechanisms": "PLAIN",
        login: f"{_PLAIN} required {_USERS};",
    }
    folder = tmp_path_factory.mktemp("rights")
    ports = [NodePorts.free([_LISTENER])]
    cluster = KafkaCluster(
        "kafka", folder, ports, jvm=Jvm(heap_mib=320, quick_start=True), properties=properties
    )
    cluster.start()
    yield cluster
    cluster.kill()
    cluster.wipe()


class Users:
    """Users with rights, and their access to the broker."""

    def __init__(self, broker: KafkaCluster, folder: Path) -> None:
        self._admin = admin_client(broker.address)
        self._folder = folder
        self._address = broker.address_of(_LISTENER)

    def allow(self, user: str, rights: Rights) -> None:
        """Grant exactly these rights; names are prefixes, except for the cluster."""
        name, any_name = f"User:{user}", None
        anything = AclBindingFilter(
            ResourceType.ANY,
            any_name,  # type: ignore[arg-type]
            ResourcePatternType.ANY,
            name,
            any_name,  # type: ignore[arg-type]
            AclOperation.ANY,
            AclPermissionType.ANY,
        )
        remove_rules(self._admin, anything)
        exactly, beginning = ResourcePatternType.LITERAL, ResourcePatternType.PREFIXED
        bindings = [
            AclBinding(
                *(kind, resource, exactly if kind is CLUSTER else beginning, name, "*"),
                operation,
                AclPermissionType.ALLOW,
            )
            for kind, resource, operations in rights
            for operation in operations
        ]
        add_rules(self._admin, bindings)

    def settings(self, user: str) -> ClusterSettings:
        """Return the settings with which adapters connect as that user."""
        document = {"protocol": _LISTENER, "mechanism": "PLAIN", "username": user, "password": "right"}
        security = KafkaSecurity.model_validate(document)
        return ClusterSettings(bootstrap_servers=self._address, security=security)

    def access(self, user: str) -> ClusterAccess:
        """Return the access with which an engine connects as that user."""
        return ClusterAccess(endpoints(self._address), sasl=SaslAccess("PLAIN", user, "right"))

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command from the broker as `reader` to the broker as `writer`."""
        lines = []
        for user in ("reader", "writer"):
            lines += [
                f"[clusters.{user}]",
                f'bootstrap_servers = "{self._address}"',
                f"[clusters.{user}.security]",
            ]
            lines += [
                f'protocol = "{_LISTENER}"',
                'mechanism = "PLAIN"',
                f'username = "{user}"',
                'password = "right"',
            ]
        file = self._folder / "headrace.toml"
        file.write_text("\n".join(lines))
        sides = ["--source", "reader", "--destination", "writer", "--config", str(file)]
        return subprocess.run(
            [sys.executable, "-m", "headrace", *command, *sides],
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )


@pytest.fixture(scope="module")
def users(broker: KafkaCluster, tmp_path_factory: pytest.TempPathFactory) -> Users:
    return Users(broker, tmp_path_factory.mktemp("users"))


def reading(prefix: str) -> Rights:
    return [(TOPIC, prefix, [READ, SETTINGS])]


def writing(prefix: str) -> dict[str, tuple[ResourceType, str, list[AclOperation]]]:
    return {
        "topic": (TOPIC, f"copy.{prefix}", [READ, WRITE, CREATE, ALTER, SETTINGS]),
        "progress": (TOPIC, "headrace-progress", [READ, WRITE, CREATE]),
        "identity": (TRANSACTION, "headrace", [WRITE]),
    }


def some_topic(broker: KafkaCluster) -> str:
    prefix = f"rights{uuid4().hex[:6]}"
    make_topic(broker.address, f"{prefix}-orders", 2)
    records = [Record(number % 2, None, b"%d" % number, (), NOW) for number in range(50)]
    write(broker.address, f"{prefix}-orders", records)
    return prefix


@pytest.mark.parametrize("guarantee", ["at-least-once", "effectively-once", "exactly-once"])
def test_a_copy_needs_what_is_listed(broker: KafkaCluster, users: Users, guarantee: str) -> None:
    prefix = some_topic(broker)
    users.allow("reader", reading(prefix))
    users.allow("writer", list(writing(prefix).values()))
    chosen = ["--topics", f"{prefix}-.*", "--rename", "copy.*"]
    done = users.run("copy", *chosen, "--until-end", "--guarantee", guarantee)
    assert done.returncode == 0, done.stderr
    assert users.run("verify", *chosen).returncode == 0


@pytest.mark.parametrize(
    ("missing", "reason"),
    [
        ("topic", "TOPIC_AUTHORIZATION_FAILED"),
        ("progress", "cannot write to headrace-progress"),
        ("identity", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"),
    ],
)
def test_what_is_missing_is_named_once_and_given_later_all_goes_on(
    broker: KafkaCluster,
    users: Users,
    new_engine: Callable[..., EngineUnderTest],
    logged: list[EventDict],
    missing: str,
    reason: str,
) -> None:
    prefix = some_topic(broker)
    topic = f"{prefix}-orders"
    make_topic(broker.address, f"copy.{topic}", 2)
    users.allow("reader", reading(prefix))
    rights = writing(prefix)
    kind, name, operations = rights.pop(missing)
    users.allow("writer", [*rights.values(), (kind, name, [one for one in operations if one is not WRITE])])
    access = {SOURCE: users.access("reader"), "destination": users.access("writer")}
    engine = new_engine(broker.address, broker.address, access=access)
    engine.start(topic, destination=f"copy.{topic}")
    engine.run_until(engine.paused, "the lane pauses")
    assert reason in engine.paused()[0].reason
    assert topic in engine.paused()[0].reason or missing == "progress"
    engine.run_for(3.0)
    told = [one for one in logged if one["event"] == "cannot store progress"]
    assert len(told) <= 1
    users.allow("writer", list(writing(prefix).values()))
    engine.run_to(topic, [25])
    assert check_copy(engine, topic, destination=f"copy.{topic}") == 25


@pytest.mark.parametrize("granted", [[], [READ, WRITE]])
def test_a_right_on_the_progress_topic_that_is_missing_is_named(
    broker: KafkaCluster,
    users: Users,
    new_engine: Callable[..., EngineUnderTest],
    granted: list[AclOperation],
) -> None:
    prefix = some_topic(broker)
    topic, progress = f"{prefix}-orders", f"headrace-progress-{prefix}"
    make_topic(broker.address, f"copy.{topic}", 2)
    users.allow("reader", reading(prefix))
    rights = writing(prefix)
    users.allow("writer", [rights["topic"], rights["identity"], (TOPIC, progress, granted)])
    access = {SOURCE: users.access("reader"), "destination": users.access("writer")}
    engine = new_engine(broker.address, broker.address, access=access, progress_topic=progress)
    engine.start(topic, destination=f"copy.{topic}")
    engine.run_until(engine.paused, "the lane pauses")
    assert re.search(rf"\bCreate\b.*\bRead\b.*\bWrite\b.*{progress}", engine.paused()[0].reason)
    users.allow("writer", list(writing(prefix).values()))
    engine.run_to(topic, [25])


def test_a_topic_whose_settings_may_not_be_read_has_the_reason_and_hides_no_other(
    broker: KafkaCluster, users: Users
) -> None:
    prefix = some_topic(broker)
    make_topic(broker.address, f"{prefix}-secret", 3)
    users.allow("reader", [(TOPIC, prefix, [DESCRIBE]), (TOPIC, f"{prefix}-orders", [SETTINGS])])
    described = KafkaAdmin(users.settings("reader")).describe([f"{prefix}-orders", f"{prefix}-secret"])
    assert described[f"{prefix}-orders"].settings_error is None
    assert described[f"{prefix}-secret"].partitions == 3
    reason = str(described[f"{prefix}-secret"].settings_error)
    assert f"grant DescribeConfigs on topic {prefix}-secret to User:reader" in reason


def test_the_leader_the_measurements_and_the_sampler_need_what_is_listed(
    broker: KafkaCluster, users: Users
) -> None:
    prefix = some_topic(broker)
    users.allow("reader", reading(prefix))
    users.allow("writer", [*writing(prefix).values(), (TOPIC, f"measured.{prefix}", [WRITE, CREATE])])
    users.allow("sampler", [(TOPIC, prefix, [DESCRIBE]), (CLUSTER, "kafka-cluster", [DESCRIBE])])
    (described,) = KafkaAdmin(users.settings("reader")).describe([f"{prefix}-orders"]).values()
    admin, copy = KafkaAdmin(users.settings("writer")), f"copy.{prefix}-orders"
    admin.create(TopicDescription(copy, described.partitions, settings=described.settings))
    admin.create(TopicDescription(f"measured.{prefix}", 1))
    eventually(lambda: admin.list_topics().keys() >= {copy, f"measured.{prefix}"}, "the topics exist")
    assert admin.grow_each({copy: 3})[copy].error is None
    eventually(lambda: admin.list_topics()[copy] == 3, "the topic has grown")
    events = placement_event_topic(users.settings("writer"), f"measured.{prefix}")
    events.publish(
        [PlacementEvent(1, "key", ChangeKind.PLAN, 1, "one", "orders", "", 0, "", "", "", "", 0.0, "because")]
    )
    events.close(PATIENCE_SECONDS)
    assert (events.drops().count, counts(broker.address, [f"measured.{prefix}"])) == (
        0,
        {f"measured.{prefix}": 1},
    )
    look = KafkaClusterProbe(users.settings("sampler"), SystemClock()).snapshot()
    assert sum(size for place, size in look.size_bytes.items() if place.topic == f"{prefix}-orders") > 0


@pytest.fixture
def surveyed() -> Callable[[ClusterSettings, str], TopicFacts]:
    """Return a function that surveys a topic."""
    loop = LoopThread("survey")

    def look(settings: ClusterSettings, topic: str) -> TopicFacts:
        survey = ClusterSurvey(settings, "survey", loop, PATIENCE_SECONDS)
        try:
            return survey.describe([topic]).topics[topic]
        finally:
            survey.close()

    return look


def test_a_survey_sees_the_rights_of_its_user(
    broker: KafkaCluster, users: Users, surveyed: Callable[[ClusterSettings, str], TopicFacts]
) -> None:
    topic = f"{some_topic(broker)}-orders"
    users.allow("reader", [(TOPIC, topic, [READ])])
    users.allow("writer", [(TOPIC, "elsewhere", [WRITE])])
    reader, writer = (surveyed(users.settings(user), topic) for user in ("reader", "writer"))
    assert reader.rights == frozenset({Right.READ, Right.DESCRIBE})
    assert reader.settings is None
    assert "TOPIC_AUTHORIZATION_FAILED" in reader.problem
    assert (writer.error, writer.rights) == (Code.TOPIC_AUTHORIZATION_FAILED, None)


def test_a_survey_sees_the_rights_on_the_cluster_and_what_is_hidden(
    broker: KafkaCluster, users: Users
) -> None:
    users.allow("reader", [(CLUSTER, "kafka-cluster", [DESCRIBE])])
    users.allow("writer", [(CLUSTER, "kafka-cluster", [CREATE, DESCRIBE, SETTINGS])])
    loop = LoopThread("survey")
    reader, writer = (
        ClusterSurvey(users.settings(user), "survey", loop, PATIENCE_SECONDS) for user in ("reader", "writer")
    )
    seen, more = reader.describe([]), writer.describe([])
    assert seen.identity == more.identity != ""
    assert seen.rights == frozenset({Right.DESCRIBE})
    assert seen.quotas is None
    assert any(re.search(r"\bquotas\b.*\breader\b", reason) for reason in seen.why)
    assert more.rights is not None
    assert Right.CREATE in more.rights
    assert more.quotas == {}
    (found,) = more.brokers
    assert found.problem == ""
    assert found.folders
    assert (found.folders[0].usable_bytes or 0) > 0
    assert int(found.release.partition(".")[0]) >= 3
    for survey in (reader, writer):
        survey.close()
