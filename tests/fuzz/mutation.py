"""Small mutating fuzzer with a seed: damages valid inputs like networks, disks and attackers."""

from __future__ import annotations

import random
import time
import tracemalloc
from collections.abc import Callable, Sequence
from typing import Final

from mirror.errors import CorruptData

_NASTY: Final = (0, 1, 0x7F, 0x80, 0xFF)
_NASTY_WIDE: Final = (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\x00\x00\x00", b"\x00\x00\x00\x00")

Target = Callable[[memoryview], object]


def mutate(seed: bytes, random_numbers: random.Random) -> bytes:
    """Apply one to eight small mutations."""
    data = bytearray(seed)
    for _ in range(random_numbers.choice((1, 1, 1, 2, 3, 8))):
        _damage(data, random_numbers)
    return bytes(data)


def _damage(data: bytearray, numbers: random.Random) -> None:
    at = numbers.randrange(len(data) + 1)
    kind = numbers.randrange(7)
    if kind == 0 and at < len(data):
        data[at] ^= 1 << numbers.randrange(8)
    elif kind == 1 and at < len(data):
        data[at] = numbers.choice(_NASTY)
    elif kind == 2:
        data[at : at + 4] = numbers.choice(_NASTY_WIDE)
    elif kind == 3:
        del data[at : at + numbers.randrange(1, 20)]
    elif kind == 4:
        data[at:at] = numbers.randbytes(numbers.randrange(1, 20))
    elif kind == 5:
        del data[at:]
    else:
        other = numbers.randrange(len(data) + 1)
        data[at:at] = data[other : other + numbers.randrange(1, 40)]


def fuzz(target: Target, seeds: Sequence[bytes], *, seed: int, seconds: float) -> int:
    """Run mutants for that long; return their number. The target may only return or raise CorruptData."""
    numbers = random.Random(seed)
    until = time.monotonic() + seconds
    runs = 0
    while time.monotonic() < until:
        for _ in range(50):
            data = mutate(numbers.choice(seeds), numbers)
            runs += 1
            started = time.monotonic()
            try:
                target(memoryview(bytearray(data)))
            except CorruptData:
                pass
            except Exception as error:
                raise AssertionError(f"{type(error).__name__} for {data!r}: {error}") from error
            taken = time.monotonic() - started
            assert taken < 2.0, f"{taken:.1f} s for {data!r}"
    return runs


def peak_bytes(target: Target, data: bytes) -> int:
    """Return the peak memory of one run of the target."""
    view = memoryview(bytearray(data))
    tracemalloc.start()
    try:
        target(view)
    except CorruptData:
        pass
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    return peak
