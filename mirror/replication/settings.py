"""Settings for copying."""

from __future__ import annotations

from pydantic import model_validator

from mirror.options import DerivedSettings
from mirror.replication.options import CopyingOptions


class CopyingSettings(DerivedSettings, CopyingOptions):
    """Memory, request sizes and timeouts of one worker process. The defaults suit most clusters."""

    @model_validator(mode="after")
    def _consistent(self) -> CopyingSettings:
        if self.fetch_bytes > self.buffer_bytes or self.live_fetch_bytes > self.live_buffer_bytes:
            raise ValueError(
                "fetch_bytes must not exceed buffer_bytes,"
                " and live_fetch_bytes must not exceed live_buffer_bytes"
            )
        if self.probe_longest_seconds < self.probe_first_seconds:
            raise ValueError("probe_longest_seconds must not be below probe_first_seconds")
        if self.transaction_timeout_seconds < 2 * self.transaction_interval_seconds:
            raise ValueError(
                "transaction_timeout_seconds must be at least twice transaction_interval_seconds"
            )
        return self

    def options(self) -> CopyingOptions:
        """Return the settings as plain values for the engine."""
        return CopyingOptions(**self.values())
