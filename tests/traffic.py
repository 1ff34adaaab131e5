"""Records written to real clusters at given rates while a test runs."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from stack.traffic.writer import Traffic
from tests.patience import PATIENCE_SECONDS


@contextmanager
def traffic(address: str, rates: Mapping[str, Mapping[int, float]] | None = None) -> Iterator[Traffic]:
    """Write records within the context.

    `rates`: bytes per second by topic and partition; without them nothing is written until `set_rates`.
    """
    writer = Traffic(address)
    set_rates(writer, rates or {})
    thread = threading.Thread(target=writer.run, name="traffic")
    thread.start()
    try:
        yield writer
    finally:
        writer.stop()
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()


def set_rates(writer: Traffic, rates: Mapping[str, Mapping[int, float]]) -> None:
    """Replace the bytes per second by topic and partition."""
    writer.set_rates(json.dumps(rates))
