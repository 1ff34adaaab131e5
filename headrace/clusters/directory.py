"""Resolves the clusters that datastreams refer to by alias or address."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headrace.plug_ins.entry_points import provider_names, strategy_names
from headrace.settings import HeadraceSettings
from mirror.control.admission import Admission, ClusterRights
from mirror.control.owner_quotas import OwnerQuota
from mirror.errors import ConfigError, InvalidRequest
from mirror.model.bounds import shown
from mirror.model.clusters import bootstrap_servers, is_like
from mirror.model.identifiers import ClusterRef
from mirror.replication.transforms import check_transforms
from mirror.settings import DefinitionSettings, KafkaCluster


class ClusterDirectory:
    """Clusters that datastreams may refer to, by alias or address.

    A reference is an alias in the settings or an address. Connections to an address use neither TLS nor
    authentication. `addresses`: patterns of addresses that definitions may use.
    """

    def __init__(self, clusters: Mapping[str, KafkaCluster], addresses: Sequence[str] = ("*",)) -> None:
        self._clusters = clusters
        self._addresses = addresses

    @property
    def aliases(self) -> frozenset[ClusterRef]:
        """Aliases of all clusters in the settings."""
        return frozenset(ClusterRef(alias) for alias in self._clusters)

    @property
    def tls(self) -> frozenset[ClusterRef]:
        """Aliases of clusters with TLS."""
        return frozenset(
            ClusterRef(alias)
            for alias, cluster in self._clusters.items()
            if cluster.security.protocol.endswith("SSL")
        )

    def resolve(self, cluster: ClusterRef) -> KafkaCluster:
        """Return the settings of a cluster. Raises ConfigError for an address that definitions may not
        use."""
        configured = self._clusters.get(cluster)
        if configured is not None:
            return configured
        self.checked("the cluster", cluster)
        servers = bootstrap_servers("the cluster", cluster)
        if not all(any(is_like(server, pattern) for pattern in self._addresses) for server in servers):
            raise ConfigError(
                f"the address {shown(cluster)} is not allowed",
                advice="add it under [clusters] or to mirror.definitions.addresses",
            )
        return KafkaCluster(bootstrap_servers=cluster, advertised=self._allowed())

    def _allowed(self) -> list[str]:
        """Return patterns of the listeners that brokers may advertise if a datastream contains their address.

        Listeners of clusters with an alias are excluded, because an alias has its own permissions.
        """
        taken = {
            server for cluster in self._clusters.values() for server in _servers(cluster.bootstrap_servers)
        }
        taken |= {
            name for cluster in self._clusters.values() for name in cluster.advertised if name.strip("*:")
        }
        return [
            *(f"!{address}" for address in sorted(taken) if not address.startswith("!")),
            *self._addresses,
        ]

    def checked(self, label: str, reference: str) -> ClusterRef:
        """Validate a reference to a cluster. Raises ConfigError unless it is an alias or an address.

        `label`: name of the option, for errors.
        """
        if reference not in self._clusters:
            try:
                bootstrap_servers(label, reference)
            except InvalidRequest as error:
                known = ", ".join(sorted(self._clusters))
                advice = f"use host:port[,host:port…] or an alias ({known})"
                raise ConfigError(error.message, advice=advice) from error
        return ClusterRef(reference)

    def of_address(self, address: str) -> ClusterRef:
        """Return the alias of the cluster with these bootstrap servers.

        Returns the address itself if its servers belong to no alias or to several. Connections use the
        bootstrap servers of the alias, so that its credentials are never sent to a server of another cluster.
        """
        wanted = _servers(address)
        near = {
            alias: servers
            for alias, cluster in self._clusters.items()
            if (servers := _servers(cluster.bootstrap_servers)) & wanted
        }
        whole = [alias for alias, servers in near.items() if wanted <= servers]
        if whole or len(near) == 1:
            return ClusterRef((whole or list(near))[0])
        return ClusterRef(address)

    def admission(self, rules: DefinitionSettings, *, knows_callers: bool) -> Admission:
        """Return the rules by which definitions of datastreams are checked.

        `knows_callers`: callers are authenticated, so permissions belong to principals.
        """
        rights = {
            ClusterRef(alias): ClusterRights(
                cluster.readers, cluster.writers, cluster.adopters, cluster.groups
            )
            for alias, cluster in self._clusters.items()
        }
        quotas = {
            owner: OwnerQuota(quota.datastreams, quota.bytes_per_second, quota.partitions)
            for owner, quota in rules.quotas.items()
        }
        return Admission(
            rights,
            rules.addresses,
            rules.most_tasks,
            knows_callers,
            quotas,
            strategies=strategy_names,
            providers=provider_names,
            transforms=check_transforms,
        )

    def address_of(self, cluster: ClusterRef) -> str:
        """Return the bootstrap servers of a cluster."""
        configured = self._clusters.get(cluster)
        return configured.bootstrap_servers if configured is not None else cluster


def directory_of(settings: HeadraceSettings) -> ClusterDirectory:
    """Build the directory of clusters that a service uses."""
    return ClusterDirectory(settings.clusters, settings.mirror.definitions.addresses)


def _servers(text: str) -> frozenset[str]:
    return frozenset(server.strip().lower() for server in text.split(",") if server.strip())
