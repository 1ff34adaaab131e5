"""Computes true rates: the growth of each partition's log since its previous sample. Pure.

Cruise Control divides a topic's rate on a broker by the number of the topic's leader partitions there, so
partitions with 404,000 B/s and 1,070 B/s were both reported with 127,200. The log size, however, is exact and
specific to the partition, and its growth over time is the true rate. A growth counts only if both sizes come
from the same leader and nothing seems to have been deleted in between:

1. no previous sample, or one more than `LONGEST_GAP_MS` ago: unknown
2. previous sample by another broker (leader moved: other files, other segments): unknown
3. the log shrank (retention, compaction, truncation, topic recreated): unknown, and marked; or it grew
   faster than physically possible: a size is damaged, and the growth is unknown
4. a second sample of the same time (both topics, replay): dropped

The previous sample is the preceding one in time among the samples of the batch and the latest sample of
earlier batches. A late sample therefore has a growth only if its predecessor is late as well, and it never
changes the state. An unknown growth is stored as 0 bytes over 0 ms, so that sums need no filter. If the
growth is unknown, the rate is the last known rate of the partition or, if there is none, the sampled average.

All computations are vectorised over one batch. The state between batches is a few columns with one row per
partition.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pmp.samples.decoder import Flags, Floats, Integers
from pmp.samples.sample import FASTEST

LONGEST_GAP_MS: Final = 3_600_000
FORGET_AFTER_MS: Final = 6 * 3_600_000
"""Time without a sample after which a partition is removed from the state."""

UNKNOWN_RATE: Final = -1.0

_FIELDS: Final = (
    ("key", pa.binary()),
    ("time_ms", pa.int64()),
    ("broker", pa.int64()),
    ("size_bytes", pa.float64()),
    ("rate", pa.float64()),
)
_SCHEMA: Final = pa.schema(_FIELDS, metadata={"memory": "2"})


@dataclass(frozen=True)
class Memory:
    """State between two batches: the latest sample of each partition, and its last known rate (bytes/s).

    `key` identifies a partition within its cluster; `rate` is UNKNOWN_RATE before the first growth.
    """

    key: pa.BinaryArray
    time_ms: Integers
    broker: Integers
    size_bytes: Floats
    rate: Floats

    def to_bytes(self) -> bytes:
        """Serialize the state as an Arrow stream for Spark's state store."""
        columns = [self.key, *(pa.array(c) for c in (self.time_ms, self.broker, self.size_bytes, self.rate))]
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, _SCHEMA) as writer:
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=_SCHEMA))
        return bytes(sink.getvalue())

    @staticmethod
    def from_bytes(data: bytes) -> Memory:
        """Deserialize the state from Spark's state store.

        State of a different version is discarded, so that one growth per partition is unknown.
        """
        with pa.ipc.open_stream(data) as reader:
            if reader.schema.metadata != _SCHEMA.metadata:
                return EMPTY
            batch = reader.read_next_batch()
        return Memory(batch.column(0), *(batch.column(n).to_numpy() for n in range(1, len(_FIELDS))))


EMPTY: Final = Memory(
    pa.array([], pa.binary()),
    np.empty(0, np.int64),
    np.empty(0, np.int64),
    np.empty(0, np.float64),
    np.empty(0, np.float64),
)


@dataclass(frozen=True)
class Samples:
    """Valid samples of one cluster, in any order, as arrays of equal length.

    `sampled`: rate in the sample.
    """

    key: pa.BinaryArray
    time_ms: Integers
    broker: Integers
    size_bytes: Floats
    sampled: Floats


@dataclass(frozen=True)
class SampleGrowth:
    """Growth of the log at each sample since the previous one.

    Bytes and ms since the previous sample (both 0 if unknown), the best known rate in bytes per second,
    whether the log shrank, and whether to keep the sample.
    """

    growth_bytes: Floats
    growth_ms: Integers
    inflow: Floats
    shrunk: Flags
    keep: Flags


def advance(memory: Memory, samples: Samples) -> tuple[SampleGrowth, Memory]:
    """Compute the growth at each sample, and the state for the next batch. Pure."""
    known = len(memory.key)
    partition = pa.concat_arrays([memory.key, samples.key]).dictionary_encode()
    code = partition.indices.to_numpy().astype(np.int64)
    time = np.concatenate([memory.time_ms, samples.time_ms])
    size = np.concatenate([memory.size_bytes, samples.size_bytes])
    broker = np.concatenate([memory.broker, samples.broker])
    order = _in_order(code, time)

    follows = _follows(code[order])
    step, rise = np.diff(time[order], prepend=0), np.diff(size[order], prepend=0.0)
    comparable = follows & (step <= LONGEST_GAP_MS) & (np.diff(broker[order], prepend=0) == 0)
    counted = comparable & (rise >= 0) & (rise * 1000 <= FASTEST * step)
    shrunk = comparable & (rise < 0)
    rate = np.concatenate([memory.rate, np.full(len(samples.key), UNKNOWN_RATE)])
    rate[order[counted]] = rise[counted] * 1000 / step[counted]
    rate[order] = _held(rate[order], follows)
    remembered = np.full(len(partition.dictionary), UNKNOWN_RATE)
    remembered[code[:known]] = memory.rate
    rate = np.where(rate >= 0, rate, remembered[code])

    growth = SampleGrowth(
        growth_bytes=_placed(order[counted], rise[counted], len(code))[known:],
        growth_ms=_placed(order[counted], step[counted], len(code))[known:],
        inflow=np.where(rate[known:] >= 0, rate[known:], samples.sampled),
        shrunk=_placed(order[shrunk], shrunk[shrunk], len(code))[known:],
        keep=_placed(order, np.ones(len(order), np.bool_), len(code))[known:],
    )
    newest = order[~np.append(follows, False)[1:]]
    newest = newest[time[newest] >= time[newest].max(initial=0) - FORGET_AFTER_MS]
    keys = partition.dictionary.take(pa.array(code[newest]))
    return growth, Memory(keys, time[newest], broker[newest], size[newest], rate[newest])


def _in_order(code: Integers, time: Integers) -> Integers:
    """Return the row positions that sort samples by partition and time, without duplicates.

    The sort is stable, and rows of the state come first, so that they precede samples of the same time.
    """
    order: Integers = np.lexsort((time, code))
    repeated = _follows(code[order]) & (np.diff(time[order], prepend=0) == 0)
    kept: Integers = order[~repeated]
    return kept


def _follows(code: Integers) -> Flags:
    """Return whether each row belongs to the same partition as the row before it."""
    same: Flags = np.diff(code, prepend=-1) == 0
    return same


def _held(rate: Floats, follows: Flags) -> Floats:
    """Replace each unknown rate by the last known rate of the same partition, if there is one."""
    position = np.arange(len(rate))
    first = np.maximum.accumulate(np.where(follows, 0, position))
    last = np.maximum.accumulate(np.where(rate >= 0, position, -1))
    held: Floats = np.where(last >= first, rate[np.maximum(last, 0)], UNKNOWN_RATE)
    return held


def _placed(at: Integers, values: npt.NDArray[Any], length: int) -> npt.NDArray[Any]:
    """Return an array with `values` at the positions `at`, and zeros elsewhere."""
    out = np.zeros(length, dtype=values.dtype)
    out[at] = values
    return out
