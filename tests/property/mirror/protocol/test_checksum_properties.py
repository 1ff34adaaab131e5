"""A corrected checksum equals the one computed over all bytes."""

from __future__ import annotations

from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as some

from mirror.protocol.batches.checksum import correct

beginnings = some.integers(0, 60).flatmap(
    lambda size: some.tuples(
        some.binary(min_size=size, max_size=size), some.binary(min_size=size, max_size=size)
    )
)
lengths = some.one_of(
    some.integers(0, 1_100),
    some.integers(0, 21).map(lambda power: 2**power),
    some.integers(0, 3_000_000),
)


@given(beginnings, some.binary(min_size=1, max_size=50), lengths)
def test_a_corrected_checksum_is_the_computed_one(
    pair: tuple[bytes, bytes], pattern: bytes, length: int
) -> None:
    before, after = pair
    rest = (pattern * (length // len(pattern) + 1))[:length]
    corrected = correct(crc32c(before + rest), crc32c(before), crc32c(after), length)
    assert corrected == crc32c(after + rest)
