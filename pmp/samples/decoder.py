"""Decodes sample bytes into columns of numbers, without a Python step per record.

`decode` takes an Arrow array of binary values and returns one row for each, good or malformed, so that rows
stay aligned with their Kafka coordinates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mirror.model.topics import LEGAL_TOPIC, MOST_PARTITIONS
from pmp.samples.sample import BYTES_PER_KIB, BYTES_PER_MIB, FASTEST, HEADER_BYTES, METRICS, NEEDED, Malformed

Floats: TypeAlias = npt.NDArray[np.float64]
Integers: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]

EARLIEST_MS: Final = 1_262_304_000_000
"""Earliest valid time, 2010-01-01, which is before the first release of Kafka."""
LATEST_MS: Final = 4_102_444_800_000
"""Latest valid time, 2100-01-01."""
LARGEST: Final = float(2**63)
"""Upper limit of valid sizes (bytes) and rates (per second); larger values are physically impossible."""
_LEGAL_NAME: Final = f"^{LEGAL_TOPIC}$"
_ILLEGAL_NAMES: Final = pa.array([".", ".."], pa.string())

ERRORS: Final = (None, *Malformed)
"""Meaning of `Decoded.error`, by index; 0 is a good sample."""

_CODES: Final = {reason: code for code, reason in enumerate(ERRORS)}
_FACTORS: Final = {
    "size": BYTES_PER_MIB,
    "bytes_in": BYTES_PER_KIB,
    "bytes_out": BYTES_PER_KIB,
    "replication_bytes_in": BYTES_PER_KIB,
    "replication_bytes_out": BYTES_PER_KIB,
}
_LIMITS: Final = {"bytes_in": FASTEST, "bytes_out": FASTEST}
SAMPLE_ROWS: Final = {
    version: np.dtype(
        [("version", "i1"), ("broker", ">i4")]
        + [(metric, ">f8") for metric in metrics]
        + [("time_ms", ">i8"), ("partition", ">i4")]
    )
    for version, metrics in METRICS.items()
}
"""Numpy layout of the bytes before the topic name, by version."""
_NOTHING: Final = np.empty(0, dtype=np.uint8)


@dataclass(frozen=True)
class Decoded:
    """Decoded samples, one row per value. Rates per second, sizes in bytes; NaN if unknown.

    The keys of `metrics` are the names in `sample.METRICS`. In malformed rows (`error` > 0) only `error` is
    valid. `topic` is an Arrow string array, null if there is no valid name.
    """

    error: npt.NDArray[np.uint8]
    version: npt.NDArray[np.int8]
    broker: Integers
    time_ms: Integers
    partition: Integers
    topic: pa.StringArray
    metrics: dict[str, Floats]


def decode(values: pa.Array, *, latest_ms: int = LATEST_MS) -> Decoded:
    """Decode samples in an Arrow array of type binary, nulls allowed. Samples from `latest_ms` on are
    malformed."""
    starts, lengths, data = _layout(values)
    rows = len(values)
    versions = np.full(rows, -1, dtype=np.int8)
    versions[lengths > 0] = data[starts[lengths > 0]].view(np.int8)
    headers = np.select([versions == version for version in HEADER_BYTES], list(HEADER_BYTES.values()), 0)
    topics, topic_errors = _topics(values, starts, lengths, headers)
    out = Decoded(
        error=np.zeros(rows, dtype=np.uint8),
        version=versions,
        broker=np.zeros(rows, dtype=np.int64),
        time_ms=np.zeros(rows, dtype=np.int64),
        partition=np.zeros(rows, dtype=np.int64),
        topic=topics,
        metrics={name: np.full(rows, np.nan) for name in METRICS[1]},
    )
    bad_number = np.zeros(rows, dtype=np.bool_)
    for version, header in HEADER_BYTES.items():
        chosen = np.flatnonzero((versions == version) & (lengths >= header))
        if len(chosen):
            leading = data[starts[chosen, None] + np.arange(header)]
            bad_number[chosen] = _fill(out, chosen, leading.view(SAMPLE_ROWS[version])[:, 0])
    _judge(out, lengths, topic_errors, bad_number, latest_ms)
    return out


def _layout(values: pa.Array) -> tuple[Integers, Integers, npt.NDArray[np.uint8]]:
    """Return where each sample starts in the underlying bytes, its length, and the bytes. A null has length
    0."""
    _, offset_buffer, data_buffer = values.buffers()
    if offset_buffer is None or len(values) == 0:
        return np.empty(0, np.int64), np.empty(0, np.int64), _NOTHING
    window = slice(values.offset, values.offset + len(values) + 1)
    offsets = np.frombuffer(offset_buffer, dtype=np.int32)[window].astype(np.int64)
    lengths = np.diff(offsets)
    if values.null_count:
        lengths[values.is_null().to_numpy(zero_copy_only=False)] = 0
    data = _NOTHING if data_buffer is None else np.frombuffer(data_buffer, dtype=np.uint8)
    return offsets[:-1], lengths, data


def _topics(
    values: pa.Array, starts: Integers, lengths: Integers, headers: Integers
) -> tuple[pa.StringArray, npt.NDArray[np.uint8]]:
    """Return the topic names that follow the headers, and an error code for each invalid name.

    An array over the same bytes splits each value into header and name, and the names are taken from it.
    Names repeat, so each distinct one is validated once.
    """
    if len(values) == 0:
        return pa.array([], pa.string()), np.empty(0, np.uint8)
    bounds = np.empty(2 * len(starts) + 1, dtype=np.int32)
    bounds[0:-1:2] = starts
    bounds[1::2] = starts + np.minimum(headers, lengths)
    bounds[-1] = starts[-1] + lengths[-1]
    halves = pa.BinaryArray.from_buffers(
        pa.binary(), 2 * len(starts), [None, pa.py_buffer(bounds), values.buffers()[2]]
    )
    names = halves.take(pa.array(np.arange(1, len(halves), 2))).dictionary_encode()
    distinct, verdicts = _judge_names(names.dictionary)
    return distinct.take(names.indices), verdicts[names.indices.to_numpy()]


def _judge_names(names: pa.BinaryArray) -> tuple[pa.StringArray, npt.NDArray[np.uint8]]:
    """Return the distinct topic names as strings (null if not UTF-8), and their error codes."""
    verdicts = np.zeros(len(names), dtype=np.uint8)
    try:
        texts = names.cast(pa.string())
    except pa.ArrowInvalid:
        texts = pa.array([_text(name) for name in names.to_pylist()], pa.string())
    legal = pc.and_not(
        pc.match_substring_regex(texts, _LEGAL_NAME), pc.is_in(texts, value_set=_ILLEGAL_NAMES)
    )
    odd = pc.invert(legal)
    verdicts[odd.fill_null(False).to_numpy(zero_copy_only=False)] = _CODES[Malformed.TOPIC]
    verdicts[texts.is_null().to_numpy(zero_copy_only=False)] = _CODES[Malformed.UTF8]
    return texts, verdicts


def _text(name: bytes) -> str | None:
    try:
        return name.decode()
    except UnicodeDecodeError:
        return None


def _fill(out: Decoded, chosen: Integers, rows: npt.NDArray[Any]) -> Flags:
    """Write the metrics of the samples `rows` to the positions `chosen`; return True for impossible
    metrics."""
    out.broker[chosen] = rows["broker"]
    out.time_ms[chosen] = rows["time_ms"]
    out.partition[chosen] = rows["partition"]
    bad = np.zeros(len(chosen), dtype=np.bool_)
    with np.errstate(over="ignore", invalid="ignore"):
        for name in METRICS[1]:
            if name in (rows.dtype.names or ()):
                values = rows[name].astype(np.float64) * _FACTORS.get(name, 1.0)
                unknown = False if name in NEEDED else np.isnan(values)
                bad |= ~((values >= 0) & (values < _LIMITS.get(name, LARGEST)) | unknown)
                out.metrics[name][chosen] = values
    return bad


def _judge(
    out: Decoded, lengths: Integers, topic_errors: npt.NDArray[np.uint8], bad_number: Flags, latest_ms: int
) -> None:
    """Set the `error` of each sample. A later check overrides earlier ones, so that the most important error
    remains."""
    error = out.error
    error[(out.time_ms < EARLIEST_MS) | (out.time_ms >= latest_ms)] = _CODES[Malformed.TIME]
    error[bad_number] = _CODES[Malformed.NUMBER]
    error[out.broker < 0] = _CODES[Malformed.BROKER]
    error[(out.partition < 0) | (out.partition >= MOST_PARTITIONS)] = _CODES[Malformed.PARTITION]
    error[topic_errors > 0] = topic_errors[topic_errors > 0]
    known = np.isin(out.version, tuple(METRICS))
    error[~known] = _CODES[Malformed.VERSION]
    for version, header in HEADER_BYTES.items():
        error[(out.version == version) & (lengths < header)] = _CODES[Malformed.SHORT]
    error[lengths == 0] = _CODES[Malformed.SHORT]
