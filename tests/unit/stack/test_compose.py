"""deploy/compose.yaml: the same stack in Docker. Only its text can be checked without an engine."""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from stack.blueprint import addresses_of
from stack.ports import StackPorts

_FILE = Path(__file__).parents[3] / "deploy" / "compose.yaml"
_SERVICES = {"zookeeper", "source", "destination", "pinot-controller", "pinot-broker", "pinot-server"}


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    loaded = yaml.safe_load(_FILE.read_text(encoding="utf-8"))
    assert isinstance(loaded, dict)
    return loaded


def _networked(services: dict[str, Any]) -> dict[str, Any]:
    return {name: service for name, service in services.items() if name != "zookeeper"}


def test_the_services_are_those_of_the_stack(compose: dict[str, Any]) -> None:
    assert set(compose["services"]) == _SERVICES


def test_images_are_official_and_pinned(compose: dict[str, Any]) -> None:
    images = {service["image"] for service in compose["services"].values()}
    assert {image.partition(":")[0] for image in images} == {"zookeeper", "apache/kafka", "apachepinot/pinot"}
    assert all(re.search(r":\d+\.\d+", image) for image in images)


def test_the_addresses_are_those_of_the_command(compose: dict[str, Any]) -> None:
    published = compose["services"]["zookeeper"]["ports"]
    expected = {
        f"{place}:{place.partition(':')[2]}" for place in addresses_of(StackPorts()).as_dict().values()
    }
    assert set(published) == expected


def test_every_container_lives_in_one_network(compose: dict[str, Any]) -> None:
    for service in _networked(compose["services"]).values():
        assert service["network_mode"] == "service:zookeeper"
        assert "ports" not in service


def test_every_service_is_asked_whether_it_serves(compose: dict[str, Any]) -> None:
    for service in compose["services"].values():
        assert service["healthcheck"]["test"]
        for dependency in service.get("depends_on", {}).values():
            assert dependency == {"condition": "service_healthy"}


@pytest.mark.parametrize(("name", "port"), [("source", 9092), ("destination", 9192)])
def test_a_broker_is_one_node_that_clients_can_reach(compose: dict[str, Any], name: str, port: int) -> None:
    settings = compose["services"][name]["environment"]
    assert settings["KAFKA_ADVERTISED_LISTENERS"] == f"PLAINTEXT://127.0.0.1:{port}"
    assert settings["KAFKA_LISTENERS"] == f"PLAINTEXT://:{port},CONTROLLER://127.0.0.1:{port + 1}"
    assert settings["KAFKA_CONTROLLER_QUORUM_VOTERS"] == f"1@127.0.0.1:{port + 1}"
    assert len(base64.urlsafe_b64decode(settings["CLUSTER_ID"] + "==")) == 16


def test_the_clusters_are_two(compose: dict[str, Any]) -> None:
    clusters = [compose["services"][name] for name in ("source", "destination")]
    assert len({cluster["environment"]["CLUSTER_ID"] for cluster in clusters}) == 2
    assert len({cluster["volumes"][0] for cluster in clusters}) == 2


def test_pinot_listens_where_headrace_looks(compose: dict[str, Any]) -> None:
    ports, services = StackPorts(), compose["services"]
    assert f"-controllerPort {ports.pinot_controller} " in services["pinot-controller"]["command"]
    assert f"-brokerPort {ports.pinot_broker}" in services["pinot-broker"]["command"]
    assert f"-serverPort {ports.pinot_server} " in services["pinot-server"]["command"]
    assert f"-serverAdminPort {ports.pinot_admin} " in services["pinot-server"]["command"]


def test_volumes_are_declared(compose: dict[str, Any]) -> None:
    used = {
        volume.partition(":")[0]
        for service in compose["services"].values()
        for volume in service.get("volumes", [])
    }
    assert used == set(compose["volumes"])
