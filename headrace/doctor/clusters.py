"""Checks a Kafka cluster: brokers, permissions, quotas, disk space, and connection security."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from api.access.origins import is_loopback
from headrace.doctor.diagnosis import DoctorFinding, Subject, some_of
from mirror.adapters.kafka.survey import BrokerFacts, ClusterFacts
from mirror.adapters.settings import KafkaCluster
from mirror.client.connection import FAR_SECONDS
from mirror.protocol.control.rights import AclOperation
from mirror.wording import rate_text

_LITTLE_ROOM: Final = 0.1
_ENCRYPTED: Final = "SSL"
_DEFAULT_BUFFER_BYTES: Final = 102_400
"""Default value of `socket.send.buffer.bytes` and `socket.receive.buffer.bytes` of a broker."""


def examined_cluster(
    alias: str, settings: KafkaCluster, facts: ClusterFacts, *, is_written: bool
) -> Iterator[DoctorFinding]:
    """Check a reachable cluster. `is_written`: Headrace creates and writes topics on this cluster."""
    subject = Subject(f"cluster {alias}")
    yield from _brokers(subject, facts)
    yield from _distance(subject, facts.brokers)
    yield from _exposure(subject, settings, facts)
    if is_written:
        yield from _creation(subject, facts)
        yield from _room(subject, facts.brokers)
    yield from _quotas(subject, facts)


def same_clusters(identities: Mapping[str, str]) -> Iterator[DoctorFinding]:
    """Report aliases that refer to the same cluster. `identities`: maps each alias to a cluster id."""
    by_identity: dict[str, list[str]] = {}
    for alias, identity in identities.items():
        by_identity.setdefault(identity, []).append(alias)
    for identity, aliases in by_identity.items():
        if identity and len(aliases) > 1:
            yield Subject("clusters").note(
                f"{' and '.join(sorted(aliases))} are the same cluster ({identity})",
                "a datastream between them must rename topics, such as to mirror.*",
            )


def _brokers(subject: Subject, facts: ClusterFacts) -> Iterator[DoctorFinding]:
    reached = [broker for broker in facts.brokers if not broker.problem]
    releases = sorted({broker.release for broker in reached})
    if reached:
        yield subject.ok(
            f"{len(reached)} of {len(facts.brokers)} brokers respond, with the protocol of Kafka"
            f" {' and '.join(releases)}"
        )
    for broker in facts.brokers:
        if broker.problem:
            yield subject.problem(
                f"broker {broker.broker} is unreachable at its advertised address {broker.address}: "
                f"{broker.problem}",
                "every broker must be reachable from here: check advertised.listeners, DNS and firewalls",
            )


def _distance(subject: Subject, brokers: tuple[BrokerFacts, ...]) -> Iterator[DoctorFinding]:
    """Report distant brokers whose round-trip time limits the throughput of a connection."""
    for broker in brokers:
        seconds = broker.round_trip_seconds
        if seconds >= FAR_SECONDS:
            rate = rate_text(_DEFAULT_BUFFER_BYTES / seconds)
            yield subject.note(
                f"the round trip to broker {broker.broker} is {seconds * 1000:.0f} ms: with Kafka's default"
                f" socket buffers, a connection carries about {rate}",
                "Headrace opens more connections to catch up; it needs fewer if socket.send.buffer.bytes and"
                " socket.receive.buffer.bytes of the brokers are -1 (docs/how-to/over-a-distance.md)",
            )


def _exposure(subject: Subject, settings: KafkaCluster, facts: ClusterFacts) -> Iterator[DoctorFinding]:
    security = settings.security
    is_local = all(is_loopback(broker.address.rpartition(":")[0].strip("[]")) for broker in facts.brokers)
    if security.protocol.endswith(_ENCRYPTED) or is_local:
        return
    if security.mechanism == "PLAIN":
        yield subject.warning(
            "the password is sent in plain text: mechanism PLAIN without TLS", "use SASL_SSL, or SCRAM"
        )
        return
    yield subject.note("records are sent without TLS", "set security.protocol to SSL or SASL_SSL")


def _creation(subject: Subject, facts: ClusterFacts) -> Iterator[DoctorFinding]:
    if facts.rights is None:
        yield subject.unknown(f"permission to create topics unknown: {some_of(facts.why)}")
    elif AclOperation.CREATE not in facts.rights:
        yield subject.note(
            "our user has no Create on the cluster; Create on topic name prefixes cannot be checked",
            "grant Create on the names of the copies (docs/kafka-security.md), or create the topics"
            " beforehand",
        )
    else:
        yield subject.ok("our user may create topics")


def _room(subject: Subject, brokers: tuple[BrokerFacts, ...]) -> Iterator[DoctorFinding]:
    for broker in brokers:
        for folder in broker.folders or ():
            total, usable = folder.total_bytes, folder.usable_bytes
            if total and usable is not None and usable < _LITTLE_ROOM * total:
                yield subject.warning(
                    f"broker {broker.broker} has {usable / total:.0%} of its disk free"
                    f" ({usable / 2**30:.1f} of {total / 2**30:.1f} GiB, {folder.path})",
                    "reduce the retention of copies, or add disk space",
                )


def _quotas(subject: Subject, facts: ClusterFacts) -> Iterator[DoctorFinding]:
    if facts.quotas is None:
        yield subject.unknown(f"broker quotas unknown: {some_of(facts.why)}")
    for key, value in (facts.quotas or {}).items():
        yield subject.note(
            f"broker quota {key}: {value:g}",
            "the quota applies per broker; headrace lanes shows throttled partitions as THROTTLED",
        )
