"""Test that compressed records of other implementations are read as Java's clients read them."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable
from itertools import pairwise
from typing import Final

import cramjam
import pytest
import zstandard

from mirror.errors import CorruptData, PayloadTooLarge
from mirror.protocol.batches.batch import scan
from mirror.protocol.batches.compression import Codec, compress
from mirror.protocol.batches.decompression import decompress
from mirror.protocol.batches.legacy import read_message
from mirror.protocol.batches.records import Record

PAYLOAD: Final = bytes(range(256)) * 40
XERIAL: Final = b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
OLD_LZ4: Final = bytes.fromhex(
    "000000000000000000000064c07532250003ffffffff0000005604224d1860401a4700000016000100513819fbbeea0f008f026b"
    "300000002876010014013400b000000100000038ba6d96a60d004f00026b31440020100244004385a6e83344001f324400145076"
    "7676767600000000"
)
"""A message of format 0 with three records, from kafka-python's `LegacyRecordBatchBuilder` (xxhash 4.1): the
header checksum of the lz4 frame is 0x1a; the correct one is 0x82."""


def gzip_members(*parts: bytes) -> bytes:
    return b"".join(gzip.compress(part) for part in parts)


def zstd_frames(*parts: bytes) -> bytes:
    return b"".join(bytes(cramjam.zstd.compress(part)) for part in parts)


def skippable(content: bytes, number: int = 0) -> bytes:
    """Return a frame that readers skip (RFC 8878, section 3.1.2)."""
    return struct.pack("<II", 0x184D2A50 + number, len(content)) + content


def snappy_streams(*parts: bytes) -> bytes:
    """Return concatenated streams of Xerial's framing."""
    blocks = [bytes(cramjam.snappy.compress_raw(part)) for part in parts]
    return b"".join(XERIAL + struct.pack(">i", len(block)) + block for block in blocks)


JOINED: Final = [
    pytest.param(Codec.GZIP, gzip_members, id="gzip members"),
    pytest.param(Codec.ZSTD, zstd_frames, id="zstd frames"),
    pytest.param(Codec.SNAPPY, snappy_streams, id="snappy streams"),
]


@pytest.mark.parametrize(("codec", "joined"), JOINED)
@pytest.mark.parametrize("cuts", [[], [1], [3_000, 5_000], [10, 11, 12, 13], list(range(10, 10_000, 10))])
def test_every_part_of_what_was_compressed_in_parts_is_read(
    codec: Codec, joined: Callable[..., bytes], cuts: list[int]
) -> None:
    edges = [0, *cuts, len(PAYLOAD)]
    parts = [PAYLOAD[first:end] for first, end in pairwise(edges)]
    assert decompress(codec, joined(*parts)) == PAYLOAD
    assert decompress(codec, memoryview(bytearray(joined(*parts)))) == PAYLOAD


@pytest.mark.parametrize("position", ["in front", "between", "behind"])
def test_skippable_zstd_frames_are_skipped(position: str) -> None:
    parts = {"in front": (0, 2), "between": (1, 1), "behind": (2, 0)}[position]
    frames = [zstd_frames(PAYLOAD[:4_000]), zstd_frames(PAYLOAD[4_000:])]
    extra = skippable(b"x" * 5_000, 7) + skippable(b"")
    data = b"".join([*frames[: parts[0]], extra, *frames[parts[0] :]])
    assert decompress(Codec.ZSTD, data) == PAYLOAD


@pytest.mark.parametrize(("codec", "joined"), JOINED)
def test_the_limit_counts_all_parts(codec: Codec, joined: Callable[..., bytes]) -> None:
    bomb = joined(*[bytes(50_000)] * 30)
    with pytest.raises(PayloadTooLarge):
        decompress(codec, bomb, 1_000_000)
    assert len(decompress(codec, bomb, 1_500_001)) == 1_500_000


@pytest.mark.parametrize(("codec", "joined"), JOINED)
def test_a_last_part_that_is_cut_off_is_damage(codec: Codec, joined: Callable[..., bytes]) -> None:
    data = joined(PAYLOAD, PAYLOAD)
    with pytest.raises(CorruptData) as raised:
        decompress(codec, data[:-9])
    assert not isinstance(raised.value, PayloadTooLarge)


def test_what_follows_the_last_gzip_member_is_ignored_as_java_does() -> None:
    assert decompress(Codec.GZIP, gzip_members(PAYLOAD) + b"padding") == PAYLOAD
    assert decompress(Codec.GZIP, gzip_members(PAYLOAD, b"") + bytes(20)) == PAYLOAD


@pytest.mark.parametrize("tail", [b"padding!", zstandard.compress(b"x")[:-3], skippable(b"abc")[:-1]])
def test_what_follows_the_last_zstd_frame_is_damage(tail: bytes) -> None:
    with pytest.raises(CorruptData):
        decompress(Codec.ZSTD, zstd_frames(PAYLOAD) + tail)


@pytest.mark.parametrize("codec", list(Codec))
def test_what_we_compress_we_read(codec: Codec) -> None:
    assert decompress(codec, compress(codec, PAYLOAD), len(PAYLOAD) + 1) == PAYLOAD


def test_lz4_of_format_0_is_read_whatever_its_header_checksum_says() -> None:
    ((start, end, header),) = scan(memoryview(OLD_LZ4))
    assert header is None
    records = [Record(n, -1, b"k%d" % n, b"v" * 40) for n in range(3)]
    assert read_message(memoryview(OLD_LZ4)[start:end]) == records


def test_only_format_0_has_the_wrong_header_checksum() -> None:
    frame = compress(Codec.LZ4, PAYLOAD)
    wrong = frame[:6] + bytes([frame[6] ^ 1]) + frame[7:]
    with pytest.raises(CorruptData):
        decompress(Codec.LZ4, wrong)
    for data in (frame, wrong):
        assert decompress(Codec.LZ4, data, is_format_0=True) == PAYLOAD
    sized = bytes(cramjam.lz4.compress(PAYLOAD))
    assert decompress(Codec.LZ4, sized, is_format_0=True) == PAYLOAD


@pytest.mark.parametrize("data", [b"", b"\x04", b"\x04\x22\x4d\x18\x60\x40", bytes(20)])
def test_what_is_no_lz4_frame_is_damage_in_format_0_too(data: bytes) -> None:
    with pytest.raises(CorruptData):
        decompress(Codec.LZ4, data, is_format_0=True)
