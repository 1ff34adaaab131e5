"""Test a destination whose brokers are too old for the source's codec; in virtual time."""

from __future__ import annotations

import pytest

from mirror.model.datastreams.policy import CopyPath, CopyPolicy
from tests.fakes.broker import batches
from tests.fakes.broker.mirrored import MirroredFakes

PRODUCE, LZ4, ZSTD = 0, 3, 4
BEFORE_ZSTD = 6


def codecs_at(fakes: MirroredFakes) -> set[int]:
    return {batches.view(batch.data).compression_type for batch in fakes.target.log("t").batches}


@pytest.mark.parametrize("path", [CopyPath.AUTO, CopyPath.RECORD])
@pytest.mark.parametrize(("version", "codec"), [(BEFORE_ZSTD, LZ4), (BEFORE_ZSTD + 1, ZSTD)])
def test_zstandard_is_written_as_lz4_where_the_destination_cannot_read_it(
    fakes: MirroredFakes, path: CopyPath, version: int, codec: int
) -> None:
    fakes.target.newest_versions[PRODUCE] = version
    fakes.make_topic("t")
    fakes.write("t", 0, 200, codec=ZSTD)
    fakes.write("t", 200, 5, codec=ZSTD)
    fakes.start("t", policy=CopyPolicy(path=path))
    fakes.run_to("t", 205)
    fakes.check("t")
    assert codecs_at(fakes) == {codec}
