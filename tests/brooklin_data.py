"""ZooKeeper tree of a Brooklin cluster in Brooklin's own layout, for tests."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from mirror.ports import NodeStore

SOURCE_BROKERS = "source.example:9092"
DESTINATION_BROKERS = "destination.example:9092"


def a_stream(
    name: str,
    topics: str = "^(orders|users)$",
    status: str = "READY",
    source: str = SOURCE_BROKERS,
    destination: str = DESTINATION_BROKERS,
    metadata: Mapping[str, str | None] | None = None,
    **fields: Any,
) -> dict[str, Any]:
    """Return a mirroring datastream with all metadata set by the server; None removes a metadata key."""
    stamped: dict[str, str | None] = {
        "owner": "sre",
        "datastreamUUID": "8d4b1c0e-5b0a-4c58-9d3e-0c7c5f3d1a11",
        "group.id": name,
        "system.taskPrefix": name,
        "system.creation.ms": "1795000000000",
        "system.reuseExistingDestination": "false",
        "system.IsConnectorManagedDestination": "true",
        "system.destination.KafkaBrokers": destination,
        "system.destination.identityPartitioningEnabled": "true",
        **(metadata or {}),
    }
    return {
        "name": name,
        "connectorName": "kafkaMirroringConnector",
        "transportProviderName": "kafkaTransportProvider",
        "source": {"connectionString": f"kafka://{source}/{topics}"},
        "destination": {"connectionString": f"kafka://{destination}/*"},
        "Status": status,
        "metadata": {key: value for key, value in stamped.items() if value is not None},
        **fields,
    }


def write_tree(nodes: NodeStore, streams: Iterable[Mapping[str, Any]], live: Iterable[str] = ()) -> None:
    """Write the tree below `/<cluster>` of a Brooklin running on the hosts `live`."""
    task = "orders_9a3f2c1e-0d5b-4f0e-8a57-3c1f3b7f9e21"
    for path, data in {
        "/dms": b"1795000000000",
        "/liveinstances": b"",
        "/instances/PAUSED_INSTANCE/assignments": b"",
        "/assignmentEnabled": b"true",
        f"/connectors/kafkaMirroringConnector/{task}": b"host-0000000000",
        f"/connectors/kafkaMirroringConnector/{task}/state/STATUS": b'{"code":"OK"}',
        f"/connectors/kafkaMirroringConnector/lock/orders/{task}": b"host-0000000000",
        "/connectors/kafkaMirroringConnector/targetAssignment": b"1795000000000",
    }.items():
        nodes.create(path, data)
    for stream in streams:
        nodes.create(f"/dms/{stream['name']}", json.dumps(stream).encode())
        nodes.create(f"/dms/{stream['name']}/numTasks", b"8")
        nodes.create(f"/dms/{stream['name']}/assignmentTokens", b"")
    for number, host in enumerate(live):
        nodes.create(f"/liveinstances/{number:010}", host.encode(), ephemeral=True)
        nodes.create(f"/instances/{host}-{number:010}/assignments/{task}", b"{}")
