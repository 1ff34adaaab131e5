"""Checks the topics of a datastream and their copies: permissions and conflicting settings."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from headrace.doctor.diagnosis import DoctorFinding, Subject, some_of
from mirror.adapters.kafka.survey import TopicFacts
from mirror.protocol.codes import MISSING, Code
from mirror.protocol.control.rights import AclOperation
from mirror.wording import counted

_SOURCE_NEEDS: Final = (AclOperation.READ,)
_SOURCE_WANTS: Final = (AclOperation.DESCRIBE_CONFIGS,)
_COPY_NEEDS: Final = (AclOperation.WRITE,)
_COPY_WANTS: Final = (AclOperation.READ, AclOperation.ALTER, AclOperation.DESCRIBE_CONFIGS)
_SHORT_RETENTION_MS: Final = 3_600_000
_NO_LIMIT: Final = 2**63 - 1


class TopicPair(NamedTuple):
    """A source topic and its copy; `copy` is None if it does not exist yet."""

    source: TopicFacts
    copy: TopicFacts | None


def is_there(facts: TopicFacts | None) -> bool:
    """Return whether a topic exists and Headrace's principal may see it."""
    return facts is not None and facts.error not in MISSING


def examined_pairs(datastream: str, pairs: Sequence[TopicPair]) -> Iterator[DoctorFinding]:
    """Check the permissions and settings of a datastream's topics."""
    subject = Subject(f"datastream {datastream}")
    if not pairs:
        yield subject.warning(
            "no topic matches", "check source.topics, and whether our user has Describe on the topics"
        )
        return
    topics: dict[DoctorFinding, list[str]] = defaultdict(list)
    for pair in pairs:
        for finding in _findings(subject, pair):
            topics[finding].append(pair.source.name)
    for finding, names in topics.items():  # one finding for all topics with the same problem
        yield replace(finding, sentence=f"{finding.sentence}: {some_of(names)}")
    if not topics:
        yield subject.ok(
            f"permissions and settings of {counted(len(pairs), 'topic')} and their copies are fine"
        )


def examined_own_topic(
    name: str, facts: TopicFacts | None, needs: Iterable[AclOperation], *, keeps_progress: bool = False
) -> Iterator[DoctorFinding]:
    """Check one internal topic of Headrace.

    `facts`: None if the topic does not exist and will be created. `keeps_progress`: the topic contains
    checkpoints, which must not expire.
    """
    subject = Subject(f"topic {name}")
    if facts is None or not is_there(facts):
        yield subject.note("does not exist yet; an instance will create it")
        return
    lacking = _lacking(facts, needs)
    if lacking:
        yield subject.problem(
            f"our user lacks {lacking}", "see docs/kafka-security.md for the required permissions"
        )
    elif keeps_progress and "delete" in (policy := (facts.settings or {}).get("cleanup.policy", "")):
        yield subject.problem(
            f"checkpoints expire (cleanup.policy={policy}): copying would start over",
            "set cleanup.policy=compact",
        )
    elif facts.rights is None:
        yield subject.unknown("the broker does not report our permissions")
    else:
        yield subject.ok("our user has the required permissions")


def _findings(subject: Subject, pair: TopicPair) -> Iterator[DoctorFinding]:
    source, copy = pair
    yield from _rights(subject, "the topic", source, _SOURCE_NEEDS, _SOURCE_WANTS)
    if source.leaderless:
        advice = "they cannot be copied until a leader is elected"
        yield subject.problem("partitions have no leader at the source", advice)
    yield from _source_settings(subject, source)
    if copy is None or not is_there(copy):
        return
    yield from _rights(subject, "the copy", copy, _COPY_NEEDS, _COPY_WANTS)
    if copy.partitions < source.partitions and not copy.error:
        yield subject.note(
            "the copy has fewer partitions; Headrace adds them if the datastream allows it",
            "set destination.grow_existing, or add the partitions",
        )
    if source.settings is not None and copy.settings is not None:
        yield from _differences(subject, source.settings, copy.settings)


def _rights(
    subject: Subject,
    what: str,
    facts: TopicFacts,
    needs: Iterable[AclOperation],
    wants: Iterable[AclOperation],
) -> Iterator[DoctorFinding]:
    advice = "see docs/kafka-security.md for the purpose of each permission"
    if lacking := _lacking(facts, needs):
        yield subject.problem(f"our user lacks {lacking} on {what}", advice)
    elif facts.rights is None:
        yield subject.unknown(f"the broker does not report our permissions on {what}")
    elif lacking := _lacking(facts, wants):
        yield subject.note(f"our user lacks {lacking} on {what}", advice)


def _lacking(facts: TopicFacts, needs: Iterable[AclOperation]) -> str:
    if facts.error == Code.TOPIC_AUTHORIZATION_FAILED:
        return "Describe"
    if facts.rights is None:
        return ""
    return ", ".join(_name(need) for need in needs if need not in facts.rights)


def _name(operation: AclOperation) -> str:
    """Return the name of an ACL operation as in Kafka's tools, for example DescribeConfigs."""
    return "".join(word.capitalize() for word in operation.name.split("_"))


def _source_settings(subject: Subject, source: TopicFacts) -> Iterator[DoctorFinding]:
    settings = source.settings or {}
    retention = _number(settings, "retention.ms")
    if retention is not None and 0 <= retention < _SHORT_RETENTION_MS and _deletes(settings):
        yield subject.warning(
            f"the source retains records for only {retention / 60_000:.0f} min: a longer outage loses"
            " records",
            "raise retention.ms at the source",
        )
    if settings.get("unclean.leader.election.enable") == "true":
        yield subject.warning(
            "the source allows unclean leader election: records that were already copied may be lost there",
            "set unclean.leader.election.enable=false",
        )


def _differences(
    subject: Subject, source: Mapping[str, str], copy: Mapping[str, str]
) -> Iterator[DoctorFinding]:
    largest, accepted = _number(source, "max.message.bytes"), _number(copy, "max.message.bytes")
    if largest is not None and accepted is not None and accepted < largest:
        yield subject.warning(
            f"the copy accepts batches up to {accepted} bytes, the source up to {largest}: larger batches"
            " are split, and a larger record pauses its partition",
            "raise max.message.bytes of the copy",
        )
    if copy.get("message.timestamp.type") == "LogAppendTime" != source.get("message.timestamp.type"):
        yield subject.note(
            "the copy overwrites record timestamps with the append time",
            "set message.timestamp.type=CreateTime",
        )
    oldest = _number(copy, "message.timestamp.before.max.ms")
    if oldest is None:
        oldest = _number(copy, "message.timestamp.difference.max.ms")
    if oldest is not None and oldest < _NO_LIMIT and copy.get("message.timestamp.type") != "LogAppendTime":
        yield subject.warning(
            f"the copy rejects records older than {oldest} ms: an older record pauses its partition",
            "raise message.timestamp.before.max.ms of the copy",
        )
    for key in ("retention.ms", "retention.bytes"):
        here, there = _number(source, key), _number(copy, key)
        if here is not None and there is not None and 0 <= there < (here if here >= 0 else _NO_LIMIT):
            yield subject.warning(
                f"the copy retains less than the source ({key} is {there} and {here}): copied records are"
                " deleted earlier",
                f"raise {key} of the copy",
            )
    if _compacts(source) != _compacts(copy):
        keeps = "compacted, but its copy is not" if _compacts(source) else "not compacted, but its copy is"
        yield subject.warning(f"the source is {keeps}", "check cleanup.policy of the copy")
    if copy.get("compression.type", "producer") not in ("producer", source.get("compression.type")):
        yield subject.note(
            f"the destination recompresses every batch ({copy['compression.type']}), which costs CPU"
            " time on its brokers",
            "set compression.type=producer",
        )


def _number(settings: Mapping[str, str], key: str) -> int | None:
    try:
        return int(settings[key])
    except (KeyError, ValueError):
        return None


def _deletes(settings: Mapping[str, str]) -> bool:
    return "delete" in settings.get("cleanup.policy", "delete")


def _compacts(settings: Mapping[str, str]) -> bool:
    return "compact" in settings.get("cleanup.policy", "delete")
