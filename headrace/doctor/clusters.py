"""What is to be said of one Kafka cluster: brokers, the user's rights, quotas, room, and how we reach it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from api.addresses import is_loopback
from headrace.doctor.diagnosis import Diagnosis, Grade, some_of
from mirror.adapters.kafka.survey import BrokerFacts, ClusterFacts
from mirror.adapters.settings import KafkaCluster
from mirror.protocol.control.rights import AclOperation

_LITTLE_ROOM: Final = 0.1
_ENCRYPTED: Final = "SSL"


def examined_cluster(
    alias: str, settings: KafkaCluster, facts: ClusterFacts, *, is_written: bool
) -> Iterator[Diagnosis]:
    """Everything about a cluster that answered. `is_written`: topics are made and written there."""
    subject = f"cluster {alias}"
    yield from _brokers(subject, facts)
    yield from _exposure(subject, settings, facts)
    if is_written:
        yield from _creation(subject, facts)
        yield from _room(subject, facts.brokers)
    yield from _quotas(subject, facts)


def same_clusters(identities: Mapping[str, str]) -> Iterator[Diagnosis]:
    """Aliases that are one cluster in truth. `identities`: cluster id by alias."""
    by_identity: dict[str, list[str]] = {}
    for alias, identity in identities.items():
        by_identity.setdefault(identity, []).append(alias)
    for identity, aliases in by_identity.items():
        if identity and len(aliases) > 1:
            yield Diagnosis(
                "clusters",
                Grade.NOTE,
                f"{' and '.join(sorted(aliases))} are the same cluster ({identity})",
                "a datastream between them needs names that differ, such as mirror.*",
            )


def _brokers(subject: str, facts: ClusterFacts) -> Iterator[Diagnosis]:
    reached = [one for one in facts.brokers if not one.problem]
    releases = sorted({one.release for one in reached})
    if reached:
        yield Diagnosis(
            subject,
            Grade.OK,
            f"{len(reached)} of {len(facts.brokers)} brokers answer, with the requests of Kafka"
            f" {' and '.join(releases)}",
        )
    for one in facts.brokers:
        if one.problem:
            yield Diagnosis(
                subject,
                Grade.PROBLEM,
                f"broker {one.broker} cannot be reached at {one.address}, the address that the cluster"
                f" announces: {one.problem}",
                "every broker has to be reachable from here: see advertised.listeners, DNS and firewalls",
            )


def _exposure(subject: str, settings: KafkaCluster, facts: ClusterFacts) -> Iterator[Diagnosis]:
    security = settings.security
    is_local = all(is_loopback(one.address.rpartition(":")[0].strip("[]")) for one in facts.brokers)
    if security.protocol.endswith(_ENCRYPTED) or is_local:
        return
    if security.mechanism == "PLAIN":
        yield Diagnosis(
            subject,
            Grade.WARNING,
            "the password is sent in the clear: mechanism PLAIN without TLS",
            "use SASL_SSL, or SCRAM",
        )
        return
    yield Diagnosis(
        subject, Grade.NOTE, "records cross the network without TLS", "security.protocol: SSL or SASL_SSL"
    )


def _creation(subject: str, facts: ClusterFacts) -> Iterator[Diagnosis]:
    if facts.rights is None:
        yield Diagnosis(
            subject, Grade.UNKNOWN, f"whether topics may be created is not said: {some_of(facts.why)}"
        )
    elif AclOperation.CREATE not in facts.rights:
        yield Diagnosis(
            subject,
            Grade.NOTE,
            "our user may not create any topic it wants; rights on names that begin alike are not shown",
            "give Create on the names of the copies (docs/kafka-security.md), or create them beforehand",
        )
    else:
        yield Diagnosis(subject, Grade.OK, "topics may be created")


def _room(subject: str, brokers: tuple[BrokerFacts, ...]) -> Iterator[Diagnosis]:
    for broker in brokers:
        for folder in broker.folders or ():
            total, usable = folder.total_bytes, folder.usable_bytes
            if total and usable is not None and usable < _LITTLE_ROOM * total:
                yield Diagnosis(
                    subject,
                    Grade.WARNING,
                    f"broker {broker.broker} has {usable / total:.0%} of its disk left"
                    f" ({usable / 2**30:.1f} of {total / 2**30:.1f} GiB, {folder.path})",
                    "copies need room for as long as the destination keeps them: retention, or more disk",
                )


def _quotas(subject: str, facts: ClusterFacts) -> Iterator[Diagnosis]:
    if facts.quotas is None:
        yield Diagnosis(subject, Grade.UNKNOWN, f"quotas of brokers are not known: {some_of(facts.why)}")
    for key, value in (facts.quotas or {}).items():
        yield Diagnosis(
            subject,
            Grade.NOTE,
            f"brokers hold us back at {key}: {value:g}",
            "it holds for each broker; what it throttles is seen as THROTTLED in headrace lanes",
        )
