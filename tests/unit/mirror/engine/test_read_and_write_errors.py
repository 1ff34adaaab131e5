"""Test that errors of reads and writes have one prefix, and name the partition and the cluster once."""

from __future__ import annotations

import pytest

from mirror.client.log_reader import fetch_once
from mirror.client.log_writer import write_patiently
from mirror.errors import HeadraceError, NotAuthorized, Unreachable
from mirror.model.topics import TopicPartition
from mirror.protocol.batches.compression import Codec
from mirror.protocol.batches.encoder import write_batch
from mirror.protocol.batches.records import Record
from tests.builders import DESTINATION, SOURCE
from tests.fakes.broker.faults import Code
from tests.fakes.broker.mirrored import MirroredFakes

PRODUCE, FETCH = 0, 1
NOT_AUTHORIZED, MOVED, REPLICAS = 29, 6, 19
PLACE = TopicPartition("t", 0)


@pytest.mark.parametrize(("code", "kind"), [(MOVED, Unreachable), (NOT_AUTHORIZED, NotAuthorized)])
def test_errors_of_reads(fakes: MirroredFakes, code: int, kind: type[HeadraceError]) -> None:
    fakes.make_topic("t")
    fakes.write("t", 0, 5)
    fakes.source.faults.plant(FETCH, Code(code, "t", 0), times=None)
    cluster = fakes.context.cluster(SOURCE)
    with pytest.raises(kind) as caught:
        fakes.context.run(fetch_once(cluster, PLACE, 3, committed=False))
    prefix, _, reason = caught.value.message.partition(": ")
    assert prefix == f"cannot read t-0 of {cluster.name} at offset 3"
    assert reason.startswith("broker returned ")
    assert ":" not in reason


@pytest.mark.parametrize(("code", "kind"), [(REPLICAS, Unreachable), (NOT_AUTHORIZED, NotAuthorized)])
def test_errors_of_writes(fakes: MirroredFakes, code: int, kind: type[HeadraceError]) -> None:
    fakes.target.create_topic("t", 1, 1)
    cluster = fakes.context.cluster(DESTINATION)
    fakes.context.run(cluster.refresh(["t"]))
    fakes.target.faults.plant(PRODUCE, Code(code), times=None)
    batch = write_batch([Record(0, 1, b"k", b"v")], Codec.NONE)
    with pytest.raises(kind) as caught:
        fakes.context.run(write_patiently(cluster, PLACE, batch, seconds=0))
    prefix, _, reason = caught.value.message.partition(": ")
    assert prefix == f"cannot write to t-0 of {cluster.name}"
    assert reason.startswith("broker returned ")
    assert ":" not in reason
