"""Test batches that their producer compressed with a high level; in virtual time."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Mapping
from typing import Final

import lz4.frame
import pytest
import zstandard

from mirror.model.datastreams.policy import CopyPath, CopyPolicy
from mirror.protocol.batches.encoder import write_batch
from mirror.protocol.batches.records import Record
from tests.fakes.broker import batches
from tests.fakes.broker.mirrored import MirroredFakes

GZIP, LZ4, ZSTD = 1, 3, 4
_WORDS: Final = [
    bytes(random.Random(number).choices(range(97, 123), k=2 + number % 8)) for number in range(500)
]


def text(count: int) -> bytes:
    """Return words of unequal frequency, which high levels compress better than usual ones."""
    weights = [1 / (place + 1) for place in range(len(_WORDS))]
    return b" ".join(random.Random(1).choices(_WORDS, weights, k=count))


def zstd(level: int, **more: int) -> Callable[[bytes], bytes]:
    """Return a function that compresses like a stream, whose frames do not state their size."""
    terms = zstandard.ZstdCompressionParameters.from_level(level, **more)

    def compress(data: bytes) -> bytes:
        stream = zstandard.ZstdCompressor(compression_params=terms).compressobj()
        return stream.compress(data) + stream.flush()

    return compress


HIGH: Final[Mapping[int, Callable[[bytes], bytes]]] = {
    GZIP: lambda data: zlib.compress(data, 9, wbits=31),
    LZ4: lambda data: lz4.frame.compress(data, 12, block_linked=False, store_size=False),
    ZSTD: zstd(19),
}


def batch(value: bytes, codec: int, compress: Callable[[bytes], bytes]) -> bytes:
    """Return a batch of one record, compressed by its producer."""
    plain = batches.build([(1_000, b"key", value, [])])
    marked = batches.restamped(plain, attributes=codec, max_timestamp=1_000)
    return batches.resized(marked, compress(plain[batches.HEADER_BYTES :]))


@pytest.mark.parametrize("path", CopyPath)
@pytest.mark.parametrize("codec", [GZIP, LZ4, ZSTD])
def test_a_record_that_fits_with_the_level_of_its_producer_is_copied(
    fakes: MirroredFakes, codec: int, path: CopyPath
) -> None:
    value = text(12_000)
    data = batch(value, codec, HIGH[codec])
    usual = len(write_batch([Record(0, 1_000, b"key", value)], codec))
    assert len(data) < usual
    fakes.make_topic("t")
    fakes.target.topics["t"].own["max.message.bytes"] = str((len(data) + usual) // 2)
    fakes.source.append("t", data)
    fakes.start("t", policy=CopyPolicy(path=path))
    fakes.run_to("t", 1)
    fakes.check("t")


@pytest.mark.parametrize("codec", [0, GZIP, LZ4, ZSTD])
def test_a_record_that_fits_only_uncompressed_is_copied(fakes: MirroredFakes, codec: int) -> None:
    value = random.Random(2).randbytes(50_000)
    plain = len(write_batch([Record(0, 1_000, b"key", value)]))
    fakes.make_topic("t")
    fakes.target.topics["t"].own["max.message.bytes"] = str(plain)
    fakes.source.write("t", [(1_000, b"key", value, [])], codec=codec)
    fakes.start("t", policy=CopyPolicy(path=CopyPath.RECORD))
    fakes.run_to("t", 1)
    fakes.check("t")


@pytest.mark.parametrize("path", CopyPath)
@pytest.mark.parametrize(
    "compress", [zstd(19), zstd(3, window_log=27)], ids=["level 19", "window of level 22"]
)
def test_zstd_of_high_levels_is_read(
    fakes: MirroredFakes, compress: Callable[[bytes], bytes], path: CopyPath
) -> None:
    fakes.make_topic("t")
    for number in range(3):
        fakes.source.append("t", batch(text(500 + number), ZSTD, compress))
    fakes.start("t", policy=CopyPolicy(path=path))
    fakes.run_to("t", 3)
    fakes.check("t")
