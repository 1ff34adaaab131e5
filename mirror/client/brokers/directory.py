"""Addresses of the brokers of one cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mirror.model.clusters import address_of
from mirror.protocol.control.cluster import Endpoint


class BrokerDirectory:
    """Addresses of brokers: bootstrap servers under negative ids, and the brokers that the cluster lists.
    `brokers`: maps each listed broker to its address. `departed`: addresses of formerly listed brokers."""

    def __init__(self, bootstrap: Sequence[Endpoint]) -> None:
        self.seeds = {-1 - number: address for number, address in enumerate(bootstrap)}
        self.brokers: dict[int, Endpoint] = {}
        self.departed: set[str] = set()

    @property
    def addresses(self) -> dict[int, Endpoint]:
        """Map broker ids to addresses. Omits listed brokers that have the address of a bootstrap server."""
        seeds = set(self.seeds.values())
        found = {broker: where for broker, where in self.brokers.items() if where not in seeds}
        return {**self.seeds, **found}

    @property
    def endpoints(self) -> list[Endpoint]:
        """Addresses of listed brokers and bootstrap servers, possibly with duplicates."""
        return [*self.brokers.values(), *self.seeds.values()]

    def endpoint(self, broker: int) -> Endpoint | None:
        """Return the address of a broker, or None if unknown."""
        return self.brokers.get(broker) or self.seeds.get(broker)

    def replace(self, brokers: Mapping[int, Endpoint]) -> None:
        """Replace the list of brokers that the cluster lists."""
        former, self.brokers = self.brokers, dict(brokers)
        self.departed |= {address_of(*where) for where in former.values()}
        self.departed -= {address_of(*where) for where in self.brokers.values()}

    def add(self, broker: int, endpoint: Endpoint) -> None:
        """Set the address of one broker."""
        self.brokers = {**self.brokers, broker: endpoint}
        self.departed.discard(address_of(*endpoint))
