"""CPU time of lz4 and zstd for several batch sizes, through their own bindings and through cramjam."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import Final

import cramjam
import lz4.frame
import zstandard

from bench.tables import markdown

RECORDS: Final = (10, 100, 2_000)
_ROUNDS: Final = 5
_LEVEL: Final = 3

_zstd: Final = zstandard.ZstdCompressor(level=_LEVEL, write_content_size=False)
_unzstd: Final = zstandard.ZstdDecompressor()


def main() -> None:
    """Print microseconds of CPU time for each call."""
    rows = []
    for records in RECORDS:
        data = payload(records)
        calls = calls_for(data)
        times = {name: measured(call, max(3, 1_000 // records)) for name, call in calls.items()}
        rows.append([f"{len(data):,}", *(f"{time_us:,.1f}" for time_us in times.values())])
    print("microseconds of processor time a batch\n")
    print(markdown(["bytes", *calls_for(b"")], rows))


def payload(records: int) -> bytes:
    """Return JSON records of about 84 bytes."""
    rng = random.Random(1)
    return b"".join(
        json.dumps(
            {
                "id": rng.randrange(10**9),
                "user": f"user-{rng.randrange(5_000)}",
                "event": rng.choice(["click", "view", "buy"]),
                "price": rng.random(),
            }
        ).encode()
        for _ in range(records)
    )


def calls_for(data: bytes) -> Mapping[str, Callable[[], bytes]]:
    """Return the calls to compare, with their names. Both libraries must return the same data."""
    as_lz4 = lz4.frame.compress(data, block_linked=False, store_size=False)
    as_zstd = _zstd.compress(data)
    calls: dict[str, Callable[[], bytes]] = {
        "lz4 write": lambda: lz4.frame.compress(data, block_linked=False, store_size=False),
        "cramjam lz4 write": lambda: _cramjam_lz4(data),
        "lz4 read": lambda: lz4.frame.decompress(as_lz4),
        "cramjam lz4 read": lambda: bytes(cramjam.lz4.decompress(as_lz4)),
        "zstd write": lambda: _zstd.compress(data),
        "cramjam zstd write": lambda: bytes(cramjam.zstd.compress(data, _LEVEL)),
        "zstd read": lambda: _unzstd.decompressobj().decompress(as_zstd),
        "cramjam zstd read": lambda: bytes(cramjam.zstd.decompress(as_zstd)),
    }
    for name, call in calls.items():
        assert not name.endswith("read") or call() == data, name
    return calls


def _cramjam_lz4(data: bytes) -> bytes:
    compressor = cramjam.lz4.Compressor(level=1, content_checksum=False, block_linked=False)
    compressor.compress(data)
    return bytes(compressor.finish())


def measured(call: Callable[[], bytes], times: int) -> float:
    """Return the median of the runs in microseconds per call."""
    found = []
    for _ in range(_ROUNDS):
        began = time.process_time()
        for _ in range(times):
            call()
        found.append((time.process_time() - began) / times * 1e6)
    return median(found)
