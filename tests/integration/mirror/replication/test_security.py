"""Brokers that authenticate their clients, and whose certificates are verified."""

from __future__ import annotations

import base64
import json
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from mirror.adapters.kafka_admin import KafkaAdmin
from mirror.adapters.metric_topic import placement_event_topic
from mirror.adapters.settings import KafkaCluster as ClusterSettings
from mirror.adapters.settings import KafkaSecurity
from mirror.adapters.system_clock import SystemClock
from mirror.client.access import (
    ClusterAccess,
    TlsFiles,
    access_from,
    endpoints,
    tls_context,
)
from mirror.model.metrics import ChangeKind, PlacementEvent
from mirror.model.topics import TopicDescription
from mirror.protocol.control.sasl import SaslAccess
from pmp.adapters.cluster_probe import KafkaClusterProbe
from stack.kafka import KafkaCluster, NodePorts
from stack.server import Jvm
from tests.engines import SOURCE, EngineUnderTest, check_copy, write
from tests.kafka_data import Record, admin_client, counts, make_topic
from tests.patience import PATIENCE_SECONDS, eventually, wait_until
from tests.servers import KafkaPair

pytestmark = [pytest.mark.servers, pytest.mark.long]

TLS = Path("tests/data/tls").absolute()
NOW = int(time.time() * 1000)
_LOGIN = "org.apache.kafka.common.security"
_USERS = 'username="admin" password="a" user_admin="a" user_mirror="right"'
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """Start a broker with a listener for each kind of authentication, which expires after two seconds."""
    listeners = ["SSL", "SASL_PLAINTEXT", "SASL_SSL"]
    properties: dict[str, object] = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": TLS / "broker.pem",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": TLS / "ca.pem",
        "listener.name.ssl.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": ",".join(_MECHANISMS),
        "connections.max.reauth.ms": 2000,
    }
    for listener in ("sasl_plaintext", "sasl_ssl"):
        prefix = f"listener.name.{listener}"
        properties |= {
            f"{prefix}.plain.sasl.jaas.config": f"{_LOGIN}.plain.PlainLoginModule required {_USERS};",
            f"{prefix}.scram-sha-256.sasl.jaas.config": f"{_LOGIN}.scram.ScramLoginModule required;",
            f"{prefix}.scram-sha-512.sasl.jaas.config": f"{_LOGIN}.scram.ScramLoginModule required;",
            f"{prefix}.oauthbearer.sasl.jaas.config": (
                f'{_LOGIN}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="admin";'
            ),
        }
    folder = tmp_path_factory.mktemp("guarded")
    ports = NodePorts.free(listeners)
    cluster = KafkaCluster(
        "guarded", folder, [ports], jvm=Jvm(heap_mib=512, quick_start=True), properties=properties
    )
    cluster.start()
    _add_scram_user(cluster.address)
    yield cluster
    cluster.kill()
    cluster.wipe()


def _add_scram_user(address: str) -> None:
    admin = admin_client(address)
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        upsertion = UserScramCredentialUpsertion("mi,rr=or", ScramCredentialInfo(mechanism, 4096), b"right")
        for future in admin.alter_user_scram_credentials([upsertion]).values():
            future.result(PATIENCE_SECONDS)


def token(seconds: float = 3600) -> str:
    """Return an unsigned bearer token, which a broker without configured keys accepts.

    Brokers round to milliseconds and must not find it issued in the future.
    """
    now = time.time() - 1.0

    def part(document: dict[str, object]) -> str:
        return base64.urlsafe_b64encode(json.dumps(document).encode()).decode().rstrip("=")

    return f"{part({'alg': 'none'})}.{part({'sub': 'mirror', 'iat': now, 'exp': now + seconds})}."


def access_of(guarded: KafkaCluster, listener: str, mechanism: str, password: str = "right") -> ClusterAccess:
    names = {"PLAIN": "mirror", "SCRAM-SHA-256": "mi,rr=or", "SCRAM-SHA-512": "mi,rr=or"}
    sasl = SaslAccess(mechanism, names.get(mechanism, ""), password, token)
    tls = tls_context(TlsFiles(str(TLS / "ca.pem"))) if listener.endswith("SSL") else None
    return ClusterAccess(endpoints(guarded.address_of(listener)), tls, sasl)


def copy_from(engine: EngineUnderTest, guarded: KafkaCluster, topic: str) -> None:
    """Copy in two steps, with more time in between than an authentication lasts."""
    make_topic(guarded.address, topic)
    make_topic(engine.destination, topic)
    records = [Record(0, b"%d" % number, b"v" * 2_000, (), NOW) for number in range(1_000)]
    write(guarded.address, topic, records, compression_type="lz4")
    engine.start(topic)
    engine.run_to(topic, [1_000])
    engine.run_for(3.0)
    write(guarded.address, topic, records, compression_type="lz4")
    engine.run_to(topic, [2_000])
    assert check_copy(engine, topic) == 2_000
    assert not engine.paused()


@pytest.mark.deep
@pytest.mark.parametrize("mechanism", _MECHANISMS)
def test_sasl_and_its_renewal(
    guarded: KafkaCluster, kafka_pair: KafkaPair, new_engine: Callable[..., EngineUnderTest], mechanism: str
) -> None:
    access = access_of(guarded, "SASL_PLAINTEXT", mechanism)
    engine = new_engine(guarded.address, kafka_pair.destination.address, access={SOURCE: access})
    copy_from(engine, guarded, f"sasl-{mechanism.lower()}")


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_sasl_through_tls(
    guarded: KafkaCluster, kafka_pair: KafkaPair, new_engine: Callable[..., EngineUnderTest], mechanism: str
) -> None:
    access = access_of(guarded, "SASL_SSL", mechanism)
    engine = new_engine(guarded.address, kafka_pair.destination.address, access={SOURCE: access})
    copy_from(engine, guarded, f"sasl-tls-{mechanism.lower()}")


def test_certificates_on_both_sides(
    guarded: KafkaCluster, kafka_pair: KafkaPair, new_engine: Callable[..., EngineUnderTest]
) -> None:
    """This cluster is the destination, so that all writes go through TLS."""
    document = {
        "bootstrap_servers": guarded.address_of("SSL"),
        "rack": "",
        "security": {
            "protocol": "SSL",
            "ca_file": str(TLS / "ca.pem"),
            "certificate_file": str(TLS / "client-certificate.pem"),
            "key_file": str(TLS / "client-key.pem"),
            "key_password": "",
        },
    }
    engine = new_engine(
        kafka_pair.source.address, guarded.address, access={"destination": access_from(document)}
    )
    make_topic(engine.source, "mutual", 2)
    make_topic(engine.destination, "mutual", 2)
    records = [Record(number % 2, b"%d" % number, b"v" * 5_000, (), NOW) for number in range(2_000)]
    write(engine.source, "mutual", records, compression_type="none")
    engine.start("mutual", 2)
    engine.run_to("mutual", [1_000, 1_000])
    assert check_copy(engine, "mutual", 2) == 2_000


def refusal(engine: EngineUnderTest, topic: str) -> str:
    make_topic(engine.destination, topic)
    engine.start(topic)
    engine.run_until(engine.paused, "the lane pauses")
    return engine.paused()[0].reason


@pytest.mark.deep
def test_a_wrong_password_pauses_and_says_so(
    guarded: KafkaCluster, kafka_pair: KafkaPair, new_engine: Callable[..., EngineUnderTest]
) -> None:
    access = access_of(guarded, "SASL_PLAINTEXT", "PLAIN", "wrong")
    engine = new_engine(guarded.address, kafka_pair.destination.address, access={SOURCE: access})
    assert "SASL_AUTHENTICATION_FAILED" in refusal(engine, "wrong-password")


@pytest.mark.deep
def test_an_authority_that_is_not_ours_is_not_trusted(
    guarded: KafkaCluster, kafka_pair: KafkaPair, new_engine: Callable[..., EngineUnderTest]
) -> None:
    tls = tls_context(TlsFiles(str(TLS / "other-ca.pem")))
    access = ClusterAccess(endpoints(guarded.address_of("SASL_SSL")), tls)
    engine = new_engine(guarded.address, kafka_pair.destination.address, access={SOURCE: access})
    assert "is not trusted" in refusal(engine, "wrong-authority")


@pytest.mark.deep
def test_a_missing_certificate_of_ours_is_named(
    guarded: KafkaCluster, kafka_pair: KafkaPair, new_engine: Callable[..., EngineUnderTest]
) -> None:
    access = ClusterAccess(endpoints(guarded.address_of("SSL")), tls_context(TlsFiles(str(TLS / "ca.pem"))))
    engine = new_engine(guarded.address, kafka_pair.destination.address, access={SOURCE: access})
    assert "certificate" in refusal(engine, "no-certificate").lower()


@pytest.mark.deep
def test_a_certificate_that_is_replaced_on_disk_is_shown_without_a_restart(
    guarded: KafkaCluster, kafka_pair: KafkaPair, new_engine: Callable[..., EngineUnderTest], tmp_path: Path
) -> None:
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    for file in (certificate, key):
        shutil.copy(TLS / "rest/client.pem", file)  # of an authority that the broker does not trust
    tls = tls_context(TlsFiles(str(TLS / "ca.pem"), str(certificate), str(key)))
    access = ClusterAccess(endpoints(guarded.address_of("SSL")), tls)
    engine = new_engine(guarded.address, kafka_pair.destination.address, access={SOURCE: access})
    topic = "renewed-certificate"
    make_topic(guarded.address, topic)
    write(guarded.address, topic, [Record(0, b"k", b"v", (), NOW)])
    assert refusal(engine, topic)
    shutil.copy(TLS / "client-certificate.pem", certificate)
    shutil.copy(TLS / "client-key.pem", key)
    engine.run_to(topic, [1])
    assert check_copy(engine, topic) == 1


@pytest.mark.deep
@pytest.mark.parametrize("mechanism", ["PLAIN", "OAUTHBEARER"])
def test_the_clients_beside_the_engine_bring_the_same_credentials(
    guarded: KafkaCluster, tmp_path: Path, mechanism: str
) -> None:
    """These are clients of the leader, of measurements and of the sampler."""
    file = tmp_path / "token"
    file.write_text(token())
    given = (
        {"token_file": str(file)}
        if mechanism == "OAUTHBEARER"
        else {"username": "mirror", "password": "right"}
    )
    security = KafkaSecurity.model_validate({"protocol": "SASL_PLAINTEXT", "mechanism": mechanism, **given})
    settings = ClusterSettings(bootstrap_servers=guarded.address_of("SASL_PLAINTEXT"), security=security)
    topic, admin = f"beside-{mechanism.lower()}", KafkaAdmin(settings)
    admin.create(TopicDescription(topic, 2))
    wait_until(lambda: admin.list_topics().get(topic) == 2)
    events = placement_event_topic(settings, topic)
    nothing = ("", 0, "", "", "", "", 0.0, "because")
    events.publish([PlacementEvent(NOW, "key", ChangeKind.PLAN, 1, "one", "orders", *nothing)])
    events.close(PATIENCE_SECONDS)
    assert (events.drops().count, counts(guarded.address, [topic])[topic]) == (0, 1)
    look = KafkaClusterProbe(settings, SystemClock()).snapshot()
    assert sum(size for place, size in look.size_bytes.items() if place.topic == topic) > 0


@pytest.mark.deep
@pytest.mark.parametrize("listener", ["SSL", "SASL_SSL", "SASL_PLAINTEXT"])
def test_the_leader_is_understood_where_clients_prove_who_they_are(
    guarded: KafkaCluster, listener: str
) -> None:
    proof: dict[str, str] = {"mechanism": "PLAIN", "username": "mirror", "password": "right"}
    if listener == "SSL":
        files = {"certificate_file": "client-certificate.pem", "key_file": "client-key.pem"}
        proof = {key: str(TLS / name) for key, name in files.items()}
    security = KafkaSecurity.model_validate({"protocol": listener, "ca_file": str(TLS / "ca.pem"), **proof})
    admin = KafkaAdmin(ClusterSettings(bootstrap_servers=guarded.address_of(listener), security=security))
    assert eventually(admin.cluster_id, "the cluster id")
