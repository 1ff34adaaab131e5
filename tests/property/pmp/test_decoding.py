"""The vectorised decoder, compared with a plain decoder of single values."""

from __future__ import annotations

import math
import struct

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from mirror.model.topics import MOST_PARTITIONS, is_legal_topic
from pmp.samples.decoder import EARLIEST_MS, ERRORS, LARGEST, LATEST_MS, decode
from pmp.samples.sample import BYTES_PER_KIB, BYTES_PER_MIB, METRICS, Malformed, Sample, encode

_FACTORS = {
    "size": BYTES_PER_MIB,
    "bytes_in": BYTES_PER_KIB,
    "bytes_out": BYTES_PER_KIB,
    "replication_bytes_in": BYTES_PER_KIB,
    "replication_bytes_out": BYTES_PER_KIB,
}


def possible(metric: str, amount: float) -> bool:
    """Return whether the amount is physically possible, or unknown and the metric optional."""
    largest = 1e11 if metric in ("bytes_in", "bytes_out") else LARGEST
    return 0 <= amount < largest or (math.isnan(amount) and metric not in ("size", "bytes_in"))


def plain(value: bytes | None) -> Malformed | dict[str, object]:
    """Decode a value of the format in the obvious way."""
    if not value:
        return Malformed.SHORT
    version = value[0]
    if version > 1:
        return Malformed.VERSION
    layout = ">bi4dqi" if version == 0 else ">bi9dqi"
    if len(value) < struct.calcsize(layout):
        return Malformed.SHORT
    _, broker, *metrics, time_ms, partition = struct.unpack_from(layout, value)
    try:
        topic = value[struct.calcsize(layout) :].decode()
    except UnicodeDecodeError:
        return Malformed.UTF8
    if not is_legal_topic(topic):
        return Malformed.TOPIC
    if not 0 <= partition < MOST_PARTITIONS:
        return Malformed.PARTITION
    if broker < 0:
        return Malformed.BROKER
    amounts = [
        number * _FACTORS.get(name, 1.0) for name, number in zip(METRICS[version], metrics, strict=True)
    ]
    if any(not possible(name, amount) for name, amount in zip(METRICS[version], amounts, strict=True)):
        return Malformed.NUMBER
    if not EARLIEST_MS <= time_ms < LATEST_MS:
        return Malformed.TIME
    named = dict(zip(METRICS[version], amounts, strict=True))
    return {
        "version": version,
        "broker": broker,
        "time": time_ms,
        "partition": partition,
        "topic": topic,
    } | named


floats = st.one_of(
    st.floats(min_value=0, max_value=1e9),
    st.sampled_from([0.0, -0.0, -1.0, 9e7, 1e8, math.nan, math.inf, -math.inf, 1e300, 5e-324]),
)
times = st.one_of(
    st.integers(EARLIEST_MS, LATEST_MS - 1),
    st.sampled_from([-1, 0, EARLIEST_MS - 1, LATEST_MS, 2**63 - 1, -(2**63)]),
)
topics = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20).map(str.encode),
    st.binary(max_size=10),
    st.sampled_from([b"orders", b"x" * 249, b"x" * 250, "\u00fc".encode() * 249, b"a\n", b"a b", b"a*"]),
    st.sampled_from([b"*", b".", b"..", b"...", b"-", b"_", b"a.b-c_D9"]),
)


@st.composite
def framed(draw: st.DrawFn) -> bytes:
    """Draw bytes with the layout of a sample."""
    version = draw(st.sampled_from([0, 1]))
    numbers = [draw(floats) for _ in METRICS[version]]
    ids = st.one_of(
        st.integers(0, MOST_PARTITIONS - 1), st.integers(0, 2**31 - 1), st.sampled_from([-1, -(2**31)])
    )
    layout = f">bi{len(numbers)}dqi"
    return struct.pack(layout, version, draw(ids), *numbers, draw(times), draw(ids)) + draw(topics)


values = st.lists(st.one_of(st.none(), st.binary(max_size=300), framed(), st.just(b"\0" * 256)), max_size=30)


@given(values, st.integers(0, 5))
def test_every_row_is_what_the_plain_decoder_says(rows: list[bytes | None], skipped: int) -> None:
    decoded = decode(pa.array(rows, pa.binary()).slice(skipped))
    assert len(decoded.error) == len(rows[skipped:])
    for index, value in enumerate(rows[skipped:]):
        expected = plain(value)
        if isinstance(expected, Malformed):
            assert ERRORS[decoded.error[index]] is expected
            continue
        assert decoded.error[index] == 0
        assert decoded.version[index] == expected["version"]
        assert decoded.broker[index] == expected["broker"]
        assert decoded.time_ms[index] == expected["time"]
        assert decoded.partition[index] == expected["partition"]
        assert decoded.topic[index].as_py() == expected["topic"]
        for name, amounts in decoded.metrics.items():
            wanted = expected.get(name, math.nan)
            assert isinstance(wanted, float)
            assert amounts[index] == wanted or (math.isnan(wanted) and math.isnan(amounts[index]))


amounts = st.floats(min_value=0, max_value=9e10).map(lambda amount: amount if amount > 1e-200 else 0.0)


@given(
    st.builds(
        Sample,
        topic=st.text("abcXYZ09._-", min_size=1, max_size=249).filter(is_legal_topic),
        partition=st.integers(0, MOST_PARTITIONS - 1),
        broker=st.integers(0, 2**31 - 1),
        time_ms=st.integers(EARLIEST_MS, LATEST_MS - 1),
        bytes_in_per_second=amounts,
        bytes_out_per_second=st.none() | amounts,
        size_bytes=amounts,
        messages_in_per_second=st.none() | amounts,
        replication_bytes_in_per_second=st.none() | amounts,
        replication_bytes_out_per_second=st.none() | amounts,
        cpu=st.none() | st.floats(0, 1),
    ),
    st.sampled_from([0, 1]),
)
def test_what_is_encoded_is_decoded(sample: Sample, version: int) -> None:
    decoded = decode(pa.array([encode(sample, version=version)], pa.binary()))
    assert decoded.error[0] == 0
    assert decoded.topic[0].as_py() == sample.topic
    assert (decoded.partition[0], decoded.broker[0], decoded.time_ms[0]) == (
        sample.partition,
        sample.broker,
        sample.time_ms,
    )
    found = {name: float(column[0]) for name, column in decoded.metrics.items()}
    encoded = {
        "size": sample.size_bytes,
        "bytes_in": sample.bytes_in_per_second,
        "bytes_out": sample.bytes_out_per_second,
        "messages_in": sample.messages_in_per_second,
        "replication_bytes_in": sample.replication_bytes_in_per_second,
        "replication_bytes_out": sample.replication_bytes_out_per_second,
        "cpu": sample.cpu,
    }
    for name, number in found.items():
        wanted = encoded.get(name) if name in METRICS[version] else None
        assert math.isnan(number) if wanted is None else math.isclose(number, wanted, rel_tol=1e-15)
