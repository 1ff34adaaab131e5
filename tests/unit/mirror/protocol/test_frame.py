"""Test the size of response frames, which an arbitrary server may have sent."""

from __future__ import annotations

import pytest

from mirror.errors import CorruptData
from mirror.protocol.frame import LARGEST_FRAME, frame_size


@pytest.mark.parametrize("head", [b"HTTP", b"SSH-", b"\x80\x00\x00\x00", b"\x00\x00\x00\x03"])
def test_an_error_shows_no_byte_of_what_is_no_frame(head: bytes) -> None:
    size = int.from_bytes(head, "big", signed=True)
    assert not 4 <= size <= LARGEST_FRAME
    with pytest.raises(CorruptData) as refused:
        frame_size(head, "kafka-1:8080")
    assert str(size) not in str(refused.value)
    assert str(refused.value).startswith("kafka-1:8080 did not send a Kafka frame: check ")
