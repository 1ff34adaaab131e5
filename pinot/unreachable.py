"""Converts httpx errors for unreachable Pinot servers to exceptions of Headrace."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from mirror.errors import TimedOut, Unreachable


@contextmanager
def translated(server: str) -> Iterator[None]:
    """Convert httpx errors in the `with` block to TimedOut and Unreachable.

    `server`: for example `broker localhost:8099`.
    """
    try:
        yield
    except httpx.TimeoutException as error:
        raise TimedOut(f"timeout waiting for the Pinot {server}") from error
    except httpx.HTTPError as error:
        raise Unreachable(
            f"cannot reach the Pinot {server}: {str(error) or type(error).__name__}",
            advice="check that Pinot is running (of a local stack: headrace-dev stack status)",
        ) from error
