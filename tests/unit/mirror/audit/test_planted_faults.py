"""Plant faults between a topic and its copy: the audit finds each one, with its verdict and its place."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from random import Random

import pytest

from mirror.audit.verdicts import Verdict
from mirror.client.access import ClusterAccess, endpoints
from mirror.jobs.partition_verdict import PartitionVerdict
from mirror.jobs.verify_job import VerifyJob, audit_copy
from mirror.lane.progress import main_key
from mirror.model.datastreams.lanes import LaneKey
from mirror.model.identifiers import GroupName
from mirror.model.topics import TopicPartition, TopicSelection
from mirror.replication.context import EngineContext, EngineIdentity
from mirror.replication.options import CopyingOptions
from tests.builders import DESTINATION, SOURCE
from tests.fakes.broker import batches
from tests.fakes.broker.batches import Content
from tests.fakes.broker.cluster import FakeCluster
from tests.fakes.broker.memory import Network
from tests.fakes.broker.virtual import VirtualSelector
from tests.fakes.clock import ManualClock
from tests.models.planted_copy import FAULTS, Place, PlantedFault, PlantedPartition, planted_copy

PROGRESS = "headrace-progress"
CODECS = (0, 1, 3)


class Audited:
    """Two fake clusters, filled from planted partitions, and an audit of them."""

    def __init__(self) -> None:
        self.clock, network = ManualClock(), Network()
        self.source = FakeCluster("a", 1, self.clock, network=network)
        self.target = FakeCluster("b", 1, self.clock, network=network)
        access = {
            SOURCE: ClusterAccess(endpoints(self.source.address)),
            DESTINATION: ClusterAccess(endpoints(self.target.address)),
        }
        selector = VirtualSelector(self.clock, [self.source, self.target])
        self.bench = EngineContext(
            access.__getitem__, CopyingOptions(), EngineIdentity("test"), self.clock, selector
        )
        self.bench.loop.new_socket = network.socket
        self.target.create_topic(PROGRESS, 1, cleanup_policy="compact")

    def close(self) -> None:
        self.bench.close()
        self.source.close()
        self.target.close()

    def audit(self, topic: str, made: list[PlantedPartition], random: Random) -> list[PartitionVerdict]:
        """Write the partitions to both clusters and audit them."""
        self.clock.advance(1.0)
        self.source.create_topic(topic, len(made))
        self.target.create_topic(topic, len(made))
        for number, part in enumerate(made):
            self._write(self.source, topic, number, part.source, random)
            self._write(self.target, topic, number, part.target, random)
            self._store(topic, number, part)
        job = VerifyJob(SOURCE, DESTINATION, TopicSelection(topic), state=topic, allows_expired=True)
        return self.bench.run(audit_copy(self.bench, job))

    @staticmethod
    def _write(
        cluster: FakeCluster, topic: str, number: int, contents: dict[int, Content], random: Random
    ) -> None:
        log = cluster.log(topic, number)
        offsets = sorted(contents)
        while offsets:
            log.end = offsets[0]
            part = [offsets.pop(0)]
            while offsets and offsets[0] == part[-1] + 1 and random.random() < 0.8:
                part.append(offsets.pop(0))
            data = batches.build([contents[one] for one in part], codec=random.choice(CODECS))
            cluster.append(topic, data, number)

    def _store(self, topic: str, number: int, part: PlantedPartition) -> None:
        following = max(part.source) + 1
        holes = following - len(part.source)
        counts = {"mirrored": len(part.copies), "filtered": len(part.filtered), "compacted": holes}
        document = {
            "next_offset": following,
            "written_ms": 1,
            "ledger": {
                "start": 0,
                "counts": counts,
                "left_out": [[one, one + 1, 1] for one in sorted(part.filtered)],
            },
            "map": {"first": 0, "sealed": 0, "runs": [[*pair, 1] for pair in part.copies.items()]},
            "source_id": "",
            "epoch": -1,
            "target_id": "",
            "clean": True,
        }
        key = main_key(LaneKey(GroupName(topic), TopicPartition(topic, number)))
        self.target.write(PROGRESS, [(1, key, json.dumps(document).encode(), [])])


@pytest.fixture
def audited() -> Iterator[Audited]:
    with closing(Audited()) as made:
        yield made


def places(verdicts: list[PartitionVerdict]) -> set[Place]:
    return {
        (finding.verdict, verdict.partition.partition, finding.source_offset, finding.target_offset)
        for verdict in verdicts
        for finding in verdict.comparison.found.findings
    }


def totals(verdicts: list[PartitionVerdict]) -> Counter[Verdict]:
    found = Counter[Verdict]()
    for counts in (verdict.comparison.found.counts for verdict in verdicts):
        found[Verdict.MISSING] += counts.missing
        found[Verdict.DUPLICATED] += counts.duplicated
        found[Verdict.ALTERED] += counts.altered
        found[Verdict.FOREIGN] += counts.foreign
    return +found


def check(seed: int, fault: PlantedFault, verdicts: list[PartitionVerdict]) -> None:
    found, texts = places(verdicts), [one for v in verdicts for one in v.comparison.found.findings]
    named = f"seed {seed}, {fault.name}: found {found}"
    assert totals(verdicts) == Counter(fault.counts), named
    if fault.any_of:
        assert found & fault.any_of, f"{named}, expected one of {fault.any_of}"
        assert {one[0] for one in found} == {one[0] for one in fault.any_of}, named
    else:
        assert found == fault.places, f"{named}, expected {fault.places}"
    assert all(fault.what in one.what for one in texts), f"{named}: {texts}"
    assert not any(verdict.comparison.uncopied.missing for verdict in verdicts), named


def run(audited: Audited, seed: int) -> None:
    random = Random(seed)
    made = planted_copy(random)
    fault = FAULTS[seed % len(FAULTS)](random, made)
    check(seed, fault, audited.audit(f"t{seed}", made, random))


def test_a_copy_without_faults_has_no_findings(audited: Audited) -> None:
    for seed in range(8):
        random = Random(seed)
        made = planted_copy(random)
        verdicts = audited.audit(f"clean{seed}", made, random)
        assert (totals(verdicts), places(verdicts)) == (Counter(), set()), f"seed {seed}"
        assert sum(one.left_out or 0 for one in verdicts) == sum(len(part.filtered) for part in made)
        equal = sum(one.comparison.found.counts.equal for one in verdicts)
        assert equal == sum(len(part.copies) for part in made)


@pytest.mark.parametrize("first", range(len(FAULTS)), ids=[fault.__name__ for fault in FAULTS])
def test_each_fault_is_found_at_its_place(audited: Audited, first: int) -> None:
    for seed in range(first, 8 * len(FAULTS), len(FAULTS)):
        run(audited, seed)


@pytest.mark.deep
@pytest.mark.parametrize("first", range(1_000, 2_000, 40))
def test_a_thousand_faults_are_found_at_their_places(audited: Audited, first: int) -> None:
    for seed in range(first, first + 40):
        run(audited, seed)
