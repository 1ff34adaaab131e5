"""Converts sample bytes to rows in Spark's Python workers, one bucket of partitions at a time.

Keep imports light, because Spark's Python workers import this module.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from mirror.adapters.system_clock import SystemClock
from mirror.model.topics import TopicSelection
from pmp.job.growth import EMPTY, Memory, Samples, advance
from pmp.samples.decoder import ERRORS, Decoded, Flags, decode

if TYPE_CHECKING:
    from pyspark.sql.streaming.state import GroupState

STATE: Final = "memory binary"
ROWS: Final = (
    "topic string, kafka_partition bigint, time_ms bigint, broker bigint, execution boolean, "
    "bytes_in_per_second double, bytes_out_per_second double, messages_in_per_second double, "
    "size_bytes double, growth_bytes double, growth_ms bigint, inflow_bytes_per_second double, "
    "shrunk bigint, "
    "reason string, value binary, origin_partition bigint, origin_offset bigint, origin_bytes bigint, "
    "too_old bigint"
)
"""Output schema of the Python step, in Spark's notation.

`reason` and the columns after it are null for a good sample. A row with a value in `too_old` is not a sample
but the number of samples that were dropped because of their age.
"""

Positions: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True)
class SampleReader:
    """Decodes samples of one cluster. Spark calls it with all new records of a bucket.

    `retention_ms`: older samples are counted and dropped, because Pinot would drop them.
    """

    selection: TopicSelection
    clock_tolerance_ms: int
    retention_ms: int

    def __call__(
        self, key: tuple[Any, ...], frames: Iterable[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        """Yield rows of valid and of malformed samples; stores the latest sample of each partition."""
        records = pd.concat(list(frames), ignore_index=True)
        values = pa.array(records["value"], pa.binary())
        now_ms = SystemClock().now_ms()
        decoded = decode(values, latest_ms=now_ms + self.clock_tolerance_ms)
        wanted = (decoded.error == 0) & self._wanted(decoded)
        too_old = wanted & (decoded.time_ms < now_ms - self.retention_ms)
        good = np.flatnonzero(wanted & ~too_old)
        bad = np.flatnonzero(decoded.error)
        if len(good):
            memory = Memory.from_bytes(state.get[0]) if state.exists else EMPTY
            rows, memory = _grown(decoded, good, records["execution"].to_numpy(), memory)
            state.update((memory.to_bytes(),))
            yield rows
        if len(bad):
            yield _malformed(decoded, records, bad)
        if too_old.any():
            yield _empty(1).assign(too_old=int(too_old.sum()))

    def _wanted(self, decoded: Decoded) -> Flags:
        """Return a mask of the samples whose topics are selected. Each distinct topic is matched only
        once."""
        names = decoded.topic.dictionary_encode()
        verdicts = [
            name is not None and self.selection.matches(name) for name in names.dictionary.to_pylist()
        ]
        wanted: Flags = np.array([*verdicts, False])[names.indices.fill_null(len(verdicts)).to_numpy()]
        return wanted


def _grown(
    decoded: Decoded, good: Positions, execution: npt.NDArray[Any], memory: Memory
) -> tuple[pd.DataFrame, Memory]:
    topics = decoded.topic.take(pa.array(good))
    number = decoded.partition[good]
    samples = Samples(
        key=pc.binary_join_element_wise(pc.cast(pa.array(number), pa.string()), topics, "/").cast(
            pa.binary()
        ),
        time_ms=decoded.time_ms[good],
        broker=decoded.broker[good],
        size_bytes=decoded.metrics["size"][good],
        sampled=decoded.metrics["bytes_in"][good],
    )
    growth, memory = advance(memory, samples)
    kept = good[growth.keep]
    rows = pd.DataFrame(
        {
            "topic": decoded.topic.take(pa.array(kept)).to_pandas(),
            "kafka_partition": decoded.partition[kept],
            "time_ms": decoded.time_ms[kept],
            "broker": decoded.broker[kept],
            "execution": execution[kept],
            "bytes_in_per_second": decoded.metrics["bytes_in"][kept],
            "bytes_out_per_second": decoded.metrics["bytes_out"][kept],
            "messages_in_per_second": decoded.metrics["messages_in"][kept],
            "size_bytes": decoded.metrics["size"][kept],
            "growth_bytes": growth.growth_bytes[growth.keep],
            "growth_ms": growth.growth_ms[growth.keep],
            "inflow_bytes_per_second": growth.inflow[growth.keep],
            "shrunk": growth.shrunk[growth.keep].astype(np.int64),
            "reason": None,
            "value": None,
            "origin_partition": None,
            "origin_offset": None,
            "origin_bytes": None,
            "too_old": None,
        }
    )
    return rows, memory


def _empty(count: int) -> pd.DataFrame:
    """Return rows that contain only nulls."""
    columns = [column.split()[0] for column in ROWS.split(", ")]
    return pd.DataFrame(dict.fromkeys(columns, None), index=range(count))


def _malformed(decoded: Decoded, records: pd.DataFrame, bad: Positions) -> pd.DataFrame:
    chosen = records.iloc[bad]
    rows = _empty(len(bad))
    rows["reason"] = [str(ERRORS[code]) for code in decoded.error[bad]]
    for name in ("execution", "value", "origin_partition", "origin_offset", "origin_bytes"):
        rows[name] = chosen[name].to_numpy()
    return rows
