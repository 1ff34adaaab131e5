"""Creates audit certificates, and compares a certificate with the current records of the clusters."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from mirror.audit.certificate import FORMAT
from mirror.audit.verdicts import Verdict, worst
from mirror.client.cluster import Cluster
from mirror.errors import CorruptData, UnexpectedCluster
from mirror.jobs.partition_verdict import PartitionVerdict
from mirror.jobs.verify_job import VerifyJob, audit_copy, ranges_between
from mirror.model.datastreams.policy import Isolation
from mirror.model.identifiers import ClusterRef
from mirror.model.topics import TopicNaming, TopicPartition, TopicSelection
from mirror.replication.context import EngineContext

_SIDES: Final = ("source", "destination")


class Period(NamedTuple):
    """Time range [from_ms, to_ms) of record timestamps that a certificate covers, in epoch ms."""

    from_ms: int
    to_ms: int


async def certify(bench: EngineContext, job: VerifyJob, datastream: str, period: Period) -> dict[str, Any]:
    """Compare the records of a period with their copies, and return the unsigned certificate.

    The comparison starts at the first source record with a timestamp at or after the start of the period. The
    range ends before the first record with a timestamp at or after the end of the period. Raises
    TopicMissing, Unreachable and the errors of reading.
    """
    ranges = await ranges_between(bench, job, *period)
    verdicts = await audit_copy(bench, replace(job, sums=True, ranges=ranges))
    return {
        "format": FORMAT,
        "datastream": datastream,
        "state": job.state,
        "issued_ms": bench.clock.now_ms(),
        **period._asdict(),
        "source": _cluster(job.source, bench.cluster(job.source)),
        "destination": _cluster(job.destination, bench.cluster(job.destination)),
        "destination_name": job.naming.template,
        "isolation": job.isolation.value,
        "transformed": job.is_transformed,
        "shared": job.is_shared,
        "partitions": [_partition(job, verdict) for verdict in verdicts],
        "verdict": worst(verdict.verdict for verdict in verdicts).value,
    }


def _cluster(reference: ClusterRef, cluster: Cluster) -> dict[str, str]:
    return {"cluster": str(reference), "cluster_id": cluster.cluster_id}


def _partition(job: VerifyJob, verdict: PartitionVerdict) -> dict[str, Any]:
    found = verdict.comparison
    counts = found.found.counts
    ranges = zip(
        _SIDES,
        (verdict.source_range, verdict.target_range),
        (found.source_sum, found.target_sum),
        strict=True,
    )
    exclusions = {
        "filtered or dead-lettered": verdict.left_out or 0,
        "compacted at the destination": counts.target_compacted,
        "compacted at the source": counts.source_compacted,
        "expired at the destination": verdict.expired,
        "written by others": counts.unrelated,
        "not copied yet": verdict.unjudged,
    }
    return {
        "topic": verdict.partition.topic,
        "destination_topic": job.naming.destination(verdict.partition.topic),
        "partition": verdict.partition.partition,
        **{name: {"start": start, "end": end} | sums.to_json() for name, (start, end), sums in ranges},
        "equal": counts.equal,
        "missing": verdict.missing,
        "altered": counts.altered,
        "reordered": counts.reordered,
        "duplicated": counts.duplicated,
        "foreign": counts.foreign,
        "exclusions": {reason: count for reason, count in exclusions.items() if count},
        "problem": verdict.problem,
        "verdict": verdict.verdict.value,
    }


async def changed_since(bench: EngineContext, document: Mapping[str, Any]) -> list[TopicPartition]:
    """Compare the records of a certificate again, and return the partitions with a different result.

    A result may differ because records have expired in the meantime.

    Raises UnexpectedCluster, and the errors of `certify` and `certified_job`.
    """
    job, ids = certified_job(document)
    for name, reference in zip(_SIDES, (job.source, job.destination), strict=True):
        cluster = bench.cluster(reference)
        await cluster.patiently(cluster.all_topics)
        if cluster.cluster_id != ids[name]:
            raise UnexpectedCluster.at(str(reference), ids[name], cluster.cluster_id)
    verdicts = await audit_copy(bench, job)
    now = {verdict.partition: _partition(job, verdict) for verdict in verdicts}
    places = {TopicPartition(part["topic"], part["partition"]): part for part in document["partitions"]}
    return [place for place, certified in places.items() if now.get(place) != certified]


def certified_job(document: Mapping[str, Any]) -> tuple[VerifyJob, Mapping[str, str]]:
    """Return the comparison that a certificate describes, and the cluster id of each side. Raises CorruptData
    if fields are missing."""
    try:
        return _job(document), {name: document[name]["cluster_id"] for name in _SIDES}
    except (LookupError, TypeError, ValueError) as error:
        raise CorruptData(f"the certificate lacks a field: {error!r:.100}") from error


def _job(document: Mapping[str, Any]) -> VerifyJob:
    partitions = document["partitions"]
    topics = sorted({part["topic"] for part in partitions})
    return VerifyJob(
        ClusterRef(document["source"]["cluster"]),
        ClusterRef(document["destination"]["cluster"]),
        TopicSelection("|".join(map(re.escape, topics))),
        TopicNaming(document["destination_name"]),
        Isolation(document["isolation"]),
        state=document["state"],
        allows_expired=True,
        is_transformed=document["transformed"],
        is_shared=document["shared"],
        sums=True,
        ranges={
            TopicPartition(part["topic"], part["partition"]): (part["source"]["start"], part["source"]["end"])
            for part in partitions
        },
    )


def is_clean(document: Mapping[str, Any], *, may_repeat: bool) -> bool:
    """Return whether a certificate states that all records arrived.

    `may_repeat`: duplicates are permitted.
    """
    clean = (Verdict.COMPLETE, Verdict.DUPLICATED) if may_repeat else (Verdict.COMPLETE,)
    return document["verdict"] in clean
