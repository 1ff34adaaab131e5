"""What is to be said of the topics of a datastream and of their copies: rights, and settings that bite."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from headrace.doctor.diagnosis import Diagnosis, Grade, some_of
from mirror.adapters.kafka.survey import TopicFacts
from mirror.protocol.codes import Code
from mirror.protocol.control.rights import AclOperation
from mirror.wording import counted

_SOURCE_NEEDS: Final = (AclOperation.READ,)
_SOURCE_WANTS: Final = (AclOperation.DESCRIBE_CONFIGS,)
_COPY_NEEDS: Final = (AclOperation.WRITE,)
_COPY_WANTS: Final = (AclOperation.READ, AclOperation.ALTER, AclOperation.DESCRIBE_CONFIGS)
_SHORT_RETENTION_MS: Final = 3_600_000
_NO_LIMIT: Final = 2**63 - 1
_NOT_THERE: Final = frozenset({Code.UNKNOWN_TOPIC_OR_PARTITION, Code.UNKNOWN_TOPIC_ID})


class Pair(NamedTuple):
    """A topic and its copy; None: it is not there yet."""

    source: TopicFacts
    copy: TopicFacts | None


class _Remark(NamedTuple):
    """What is said of one topic; those of several topics are one finding where only the name differs."""

    grade: Grade
    sentence: str
    advice: str


def is_there(facts: TopicFacts | None) -> bool:
    """Whether the topic exists, as far as our user is shown."""
    return facts is not None and facts.error not in _NOT_THERE


def examined_pairs(datastream: str, pairs: Sequence[Pair]) -> Iterator[Diagnosis]:
    """Rights and settings of a datastream's topics, one finding for all topics of which the same is true."""
    subject = f"datastream {datastream}"
    if not pairs:
        yield Diagnosis(
            subject,
            Grade.WARNING,
            "no topic matches",
            "see source.topics, and whether our user may Describe the topics",
        )
        return
    topics: dict[_Remark, list[str]] = defaultdict(list)
    for pair in pairs:
        for remark in _remarks(pair):
            topics[remark].append(pair.source.name)
    for remark, names in topics.items():
        yield Diagnosis(subject, remark.grade, f"{remark.sentence}: {some_of(names)}", remark.advice)
    if not topics:
        yield Diagnosis(
            subject, Grade.OK, f"rights and settings of {counted(len(pairs), 'topic')} and their copies fit"
        )


def examined_own_topic(
    name: str, facts: TopicFacts | None, needs: Iterable[AclOperation], *, keeps_progress: bool = False
) -> Iterator[Diagnosis]:
    """A topic that Headrace writes for itself. `facts` None: it is not there, and will be made.
    `keeps_progress`: it holds checkpoints, which must not expire."""
    subject = f"topic {name}"
    if facts is None or not is_there(facts):
        yield Diagnosis(subject, Grade.NOTE, "it is not there yet; an instance makes it", "")
        return
    lacking = _lacking(facts, needs)
    if lacking:
        yield Diagnosis(
            subject,
            Grade.PROBLEM,
            f"our user lacks {lacking}",
            "docs/kafka-security.md lists the rights that are needed",
        )
    elif keeps_progress and "delete" in (policy := (facts.settings or {}).get("cleanup.policy", "")):
        yield Diagnosis(
            subject,
            Grade.PROBLEM,
            f"it deletes checkpoints with time (cleanup.policy={policy}): copies would start again",
            "set cleanup.policy=compact on it",
        )
    elif facts.rights is None:
        yield Diagnosis(subject, Grade.UNKNOWN, "the broker does not say what our user may do")
    else:
        yield Diagnosis(subject, Grade.OK, "our user has the rights that are needed")


def _remarks(pair: Pair) -> Iterator[_Remark]:
    source, copy = pair
    yield from _rights("", source, _SOURCE_NEEDS, _SOURCE_WANTS)
    if source.leaderless:
        advice = "nothing of them can be copied until a leader is elected"
        yield _Remark(Grade.PROBLEM, "partitions have no leader at the source", advice)
    yield from _source_settings(source)
    if copy is None or not is_there(copy):
        return
    yield from _rights(" the copy", copy, _COPY_NEEDS, _COPY_WANTS)
    if copy.partitions < source.partitions and not copy.error:
        yield _Remark(
            Grade.NOTE,
            "the copy has fewer partitions; it is grown where the datastream may",
            "destination.grow_existing, or add the partitions",
        )
    if source.settings is not None and copy.settings is not None:
        yield from _differences(source.settings, copy.settings)


def _rights(
    what: str, facts: TopicFacts, needs: Iterable[AclOperation], wants: Iterable[AclOperation]
) -> Iterator[_Remark]:
    advice = "docs/kafka-security.md says what each is for"
    if lacking := _lacking(facts, needs):
        yield _Remark(Grade.PROBLEM, f"our user lacks {lacking} on{what or ' the topic'}", advice)
    elif facts.rights is None:
        yield _Remark(Grade.UNKNOWN, f"the broker does not say our rights on{what or ' the topic'}", "")
    elif lacking := _lacking(facts, wants):
        yield _Remark(Grade.NOTE, f"our user lacks {lacking} on{what or ' the topic'}", advice)


def _lacking(facts: TopicFacts, needs: Iterable[AclOperation]) -> str:
    if facts.error == Code.TOPIC_AUTHORIZATION_FAILED:
        return "Describe"
    if facts.rights is None:
        return ""
    return ", ".join(_name(one) for one in needs if one not in facts.rights)


def _name(operation: AclOperation) -> str:
    """As Kafka's tools write it: DescribeConfigs."""
    return "".join(word.capitalize() for word in operation.name.split("_"))


def _source_settings(source: TopicFacts) -> Iterator[_Remark]:
    settings = source.settings or {}
    retention = _number(settings, "retention.ms")
    if retention is not None and 0 <= retention < _SHORT_RETENTION_MS and _deletes(settings):
        yield _Remark(
            Grade.WARNING,
            f"the source keeps records for {retention / 60_000:.0f} min only: an outage that lasts longer"
            " loses them",
            "raise retention.ms at the source",
        )
    if settings.get("unclean.leader.election.enable") == "true":
        yield _Remark(
            Grade.WARNING,
            "the source may elect an unclean leader: records that were copied may vanish there",
            "unclean.leader.election.enable=false",
        )


def _differences(source: Mapping[str, str], copy: Mapping[str, str]) -> Iterator[_Remark]:
    largest, accepted = _number(source, "max.message.bytes"), _number(copy, "max.message.bytes")
    if largest is not None and accepted is not None and accepted < largest:
        yield _Remark(
            Grade.WARNING,
            f"the copy accepts batches up to {accepted} bytes, the source up to {largest}: larger ones are"
            " split, and a larger record pauses its partition",
            "max.message.bytes of the copy",
        )
    if copy.get("message.timestamp.type") == "LogAppendTime" != source.get("message.timestamp.type"):
        yield _Remark(
            Grade.NOTE,
            "the copy stamps records itself: times of the source are lost",
            "message.timestamp.type=CreateTime",
        )
    oldest = _number(copy, "message.timestamp.before.max.ms")
    if oldest is None:
        oldest = _number(copy, "message.timestamp.difference.max.ms")
    if oldest is not None and oldest < _NO_LIMIT and copy.get("message.timestamp.type") != "LogAppendTime":
        yield _Remark(
            Grade.WARNING,
            f"the copy refuses records older than {oldest} ms: what is older pauses its partition",
            "message.timestamp.before.max.ms of the copy",
        )
    for key in ("retention.ms", "retention.bytes"):
        here, there = _number(source, key), _number(copy, key)
        if here is not None and there is not None and 0 <= there < (here if here >= 0 else _NO_LIMIT):
            yield _Remark(
                Grade.WARNING,
                f"the copy keeps less than the source ({key} is {there} and {here}): records that were copied"
                " are deleted earlier",
                f"{key} of the copy",
            )
    if _compacts(source) != _compacts(copy):
        keeps = "compacted and its copy is not" if _compacts(source) else "not compacted and its copy is"
        yield _Remark(Grade.WARNING, f"the source is {keeps}", "cleanup.policy of the copy")
    if copy.get("compression.type", "producer") not in ("producer", source.get("compression.type")):
        yield _Remark(
            Grade.NOTE,
            f"the destination compresses every batch again ({copy['compression.type']}), which takes its"
            " processor time",
            "compression.type=producer",
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
