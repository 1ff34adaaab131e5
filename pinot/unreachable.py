"""Translates what httpx raises when a Pinot server cannot be reached."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from mirror.errors import TimedOut, Unreachable


@contextmanager
def translated(server: str) -> Iterator[None]:
    """Raises TimedOut and Unreachable; `server` names it, as in `broker localhost:8099`."""
    try:
        yield
    except httpx.TimeoutException as error:
        raise TimedOut(f"the Pinot {server} did not answer in time") from error
    except httpx.HTTPError as error:
        raise Unreachable(
            f"the Pinot {server} does not answer ({str(error) or type(error).__name__})",
            advice="is it running? headrace stack status",
        ) from error
