"""Converts samples in hexadecimal to JSON objects that people can read."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa

from pmp.samples.decoder import ERRORS, Decoded, decode
from pmp.samples.sample import EXPLANATIONS


def describe_line(line: str) -> dict[str, Any]:
    """Return the sample in a line of hex digits, or the decoding error. An empty line is an empty value."""
    try:
        value = bytes.fromhex(line.strip())
    except ValueError as error:
        return {"error": "hex", "reason": f"invalid hexadecimal: {error}"}
    return describe(decode(pa.array([value], pa.binary())))


def describe(decoded: Decoded) -> dict[str, Any]:
    """Return the first row of decoded columns as a JSON object, or its error."""
    reason = ERRORS[decoded.error[0]]
    if reason is not None:
        return {"error": str(reason), "reason": EXPLANATIONS[reason]}
    numbers = {name: _number(values[0]) for name, values in decoded.metrics.items()}
    return {
        "version": int(decoded.version[0]),
        "broker": int(decoded.broker[0]),
        "time_ms": int(decoded.time_ms[0]),
        "topic": decoded.topic[0].as_py(),
        "partition": int(decoded.partition[0]),
        "bytes_in_per_second": numbers["bytes_in"],
        "bytes_out_per_second": numbers["bytes_out"],
        "messages_in_per_second": numbers["messages_in"],
        "replication_bytes_in_per_second": numbers["replication_bytes_in"],
        "replication_bytes_out_per_second": numbers["replication_bytes_out"],
        "size_bytes": numbers["size"],
        "cpu": numbers["cpu"],
    }


def _number(value: float) -> float | None:
    return None if math.isnan(value) else float(value)
