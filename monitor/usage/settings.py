"""Settings of the prices of transfers."""

from __future__ import annotations

from pydantic import Field, model_validator

from mirror.options import Settings
from monitor.usage.bill import PriceTable


class TransferPriceSettings(Settings):
    """Price of transfers between two clusters."""

    source: str
    """Alias of the source cluster."""
    destination: str
    """Alias of the destination cluster."""
    per_gb: float = Field(ge=0, le=1_000_000)
    """Price of 10^9 bytes."""


class UsageSettings(Settings):
    """Prices from which `/v1/usage` and `headrace usage` compute costs."""

    currency: str = Field(default="USD", min_length=1, max_length=20)
    """Name of the currency, for display."""
    per_gb: float | None = Field(default=None, ge=0, le=1_000_000)
    """Price per 10^9 bytes transferred between two clusters that are not in `prices`. If unset, the cost of
    transfers without a price is unknown."""
    prices: dict[str, TransferPriceSettings] = Field(default_factory=dict)
    """Prices between two clusters. The keys are arbitrary names."""

    @model_validator(mode="after")
    def _no_pair_twice(self) -> UsageSettings:
        pairs = [(price.source, price.destination) for price in self.prices.values()]
        for source, destination in pairs:
            if pairs.count((source, destination)) > 1:
                raise ValueError(f"prices: {source} to {destination} has two prices; remove one")
        return self

    def table(self) -> PriceTable:
        """Return the prices by source and destination."""
        pairs = {(price.source, price.destination): price.per_gb for price in self.prices.values()}
        return PriceTable(self.per_gb, pairs)
