"""`headrace pmp decode`, line by line."""

from __future__ import annotations

import pytest

from pmp.samples.description import describe_line
from pmp.samples.sample import Sample, encode

SAMPLE = Sample(
    topic="orders.eu",
    partition=7,
    broker=3,
    time_ms=1_795_237_545_786,
    bytes_in_per_second=1536.0,
    bytes_out_per_second=1024.0,
    size_bytes=3 * 1048576.0,
    messages_in_per_second=12.5,
    replication_bytes_in_per_second=0.0,
    replication_bytes_out_per_second=2048.0,
    cpu=0.25,
)
KEYS = [
    "version",
    "broker",
    "time_ms",
    "topic",
    "partition",
    "bytes_in_per_second",
    "bytes_out_per_second",
    "messages_in_per_second",
    "replication_bytes_in_per_second",
    "replication_bytes_out_per_second",
    "size_bytes",
    "cpu",
]


def test_a_sample_of_version_1() -> None:
    assert describe_line(encode(SAMPLE).hex() + "\n") == dict(
        zip(
            KEYS,
            [1, 3, 1_795_237_545_786, "orders.eu", 7, 1536.0, 1024.0, 12.5, 0.0, 2048.0, 3145728.0, 0.25],
            strict=True,
        )
    )


def test_version_0_leaves_unknown_numbers_null() -> None:
    found = describe_line(encode(SAMPLE, version=0).hex())
    assert list(found) == KEYS
    unknown = {key for key, value in found.items() if value is None}
    assert unknown == {
        "messages_in_per_second",
        "replication_bytes_in_per_second",
        "replication_bytes_out_per_second",
    }


@pytest.mark.parametrize(
    ("line", "error"),
    [("", "short"), ("\n", "short"), ("zz", "hex"), ("abc", "hex"), ("02ff", "version"), ("01", "short")],
)
def test_a_line_that_is_no_sample_says_why(line: str, error: str) -> None:
    found = describe_line(line)
    assert found["error"] == error
    assert found["reason"]
