"""Converts a cluster's settings to properties of the Java Kafka client, for Pinot and Spark."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from mirror.errors import ConfigError
from mirror.settings import KafkaCluster, KafkaSecurity

_LOGIN_MODULES: Final = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}

_SECRETS: Final = frozenset({"sasl.jaas.config", "ssl.keystore.key", "ssl.key.password"})


def client_properties(cluster: KafkaCluster) -> dict[str, str]:
    """Return the Java client's properties for connecting to a cluster, except `bootstrap.servers`; empty
    without security.

    The values contain the certificates, so that the certificate files need not exist on Pinot's machines.
    Raises ConfigError if a file cannot be read or the mechanism is not supported.
    """
    security = cluster.security
    if security.protocol == "PLAINTEXT":
        return {}
    return {"security.protocol": security.protocol} | _certificates(security) | _login(security)


def by_reference(properties: Mapping[str, str]) -> dict[str, str]:
    """Replace secrets in properties by references to environment variables.

    Pinot replaces `${NAME}` in its tables with the value of the variable, if that is the whole value of a
    field.
    """
    return {key: _reference(key) if key in _SECRETS else value for key, value in properties.items()}


def _reference(key: str) -> str:
    return f"${{HEADRACE_{key.upper().replace('.', '_')}}}"


def _certificates(security: KafkaSecurity) -> dict[str, str]:
    properties: dict[str, str] = {}
    if security.ca_file:
        properties |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": _read(security.ca_file)}
    if security.certificate_file:
        properties |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": _read(security.certificate_file),
            "ssl.keystore.key": _read(security.key_file),
        }
        if security.key_password.get_secret_value():
            properties["ssl.key.password"] = security.key_password.get_secret_value()
    return properties


def _login(security: KafkaSecurity) -> dict[str, str]:
    if not security.mechanism:
        return {}
    module = _LOGIN_MODULES.get(security.mechanism)
    if module is None:
        raise ConfigError(
            f"mechanism {security.mechanism} is not supported for Spark and Pinot",
            advice="use PLAIN or SCRAM, or give the Java client a JAAS file",
        )
    user, password = _quoted(security.username), _quoted(security.password.get_secret_value())
    return {
        "sasl.mechanism": security.mechanism,
        "sasl.jaas.config": f"{module} required username={user} password={password};",
    }


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot read the certificate file {path}: {error.strerror}") from error
