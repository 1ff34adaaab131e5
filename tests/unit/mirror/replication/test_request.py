"""Requests without their end."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mirror.client.request import split_end


@given(st.lists(st.binary(max_size=10), max_size=6), st.integers(0, 70))
def test_the_two_parts_are_the_whole(buffers: list[bytes], size: int) -> None:
    front, end = split_end(buffers, size)
    whole = b"".join(buffers)
    assert b"".join(front) + b"".join(end) == whole
    assert len(b"".join(end)) == min(size, len(whole))
