"""Settings of Spark and Pinot for a secured cluster."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import SecretStr

from mirror.errors import ConfigError
from mirror.settings import KafkaCluster, KafkaSecurity
from pinot.deployment.java_kafka import by_reference, client_properties


def a_cluster(**security: object) -> KafkaCluster:
    return KafkaCluster(bootstrap_servers="b:9092", security=KafkaSecurity.model_validate(security))


def test_an_open_cluster_needs_nothing() -> None:
    assert client_properties(a_cluster()) == {}


def test_a_password_may_hold_any_character() -> None:
    cluster = a_cluster(
        protocol="SASL_SSL", mechanism="SCRAM-SHA-512", username="me", password=SecretStr('a"b\\c')
    )
    properties = client_properties(cluster)
    assert properties["security.protocol"] == "SASL_SSL"
    assert properties["sasl.jaas.config"] == (
        "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="me" password="a\\"b\\\\c";'
    )


def test_certificates_go_by_value(tmp_path: Path) -> None:
    for name in ("ca", "cert", "key"):
        (tmp_path / name).write_text(f"pem of {name}")
    cluster = a_cluster(
        protocol="SSL",
        ca_file=str(tmp_path / "ca"),
        certificate_file=str(tmp_path / "cert"),
        key_file=str(tmp_path / "key"),
    )
    properties = client_properties(cluster)
    assert properties["ssl.truststore.certificates"] == "pem of ca"
    assert properties["ssl.keystore.certificate.chain"] == "pem of cert"
    assert properties["ssl.keystore.key"] == "pem of key"


def test_what_cannot_be_handed_over_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="OAUTHBEARER"):
        client_properties(a_cluster(protocol="SASL_SSL", mechanism="OAUTHBEARER", token_file="token"))
    with pytest.raises(ConfigError, match="certificate file"):
        client_properties(a_cluster(protocol="SSL", ca_file=str(tmp_path / "missing")))


def test_secrets_can_be_names_of_variables(tmp_path: Path) -> None:
    (tmp_path / "pem").write_text("PEM")
    pem = str(tmp_path / "pem")
    cluster = a_cluster(
        protocol="SASL_SSL",
        mechanism="PLAIN",
        username="me",
        password=SecretStr("right"),
        certificate_file=pem,
        key_file=pem,
        key_password=SecretStr("of the key"),
    )
    properties = by_reference(client_properties(cluster))
    assert properties["sasl.jaas.config"] == "${HEADRACE_SASL_JAAS_CONFIG}"
    assert properties["ssl.keystore.key"] == "${HEADRACE_SSL_KEYSTORE_KEY}"
    assert properties["ssl.key.password"] == "${HEADRACE_SSL_KEY_PASSWORD}"
    assert properties["ssl.keystore.certificate.chain"] == "PEM"
    assert (properties["sasl.mechanism"], properties["security.protocol"]) == ("PLAIN", "SASL_SSL")
    assert "right" not in str(properties)
