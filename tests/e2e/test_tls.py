"""Processes with TLS and tokens: instances query each other, and Brooklin has a separate listener."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from api.access.rights import Principal, Role
from api.access.tokens import add_entry, new_token
from headrace.console.client import RestClient
from headrace.console.settings import ClientSettings
from stack.ports import free_ports
from tests.e2e.conftest import NewInstance
from tests.patience import PATIENCE_SECONDS, wait_until
from tests.servers import KafkaPair

pytestmark = [pytest.mark.servers, pytest.mark.long]

FILES: Final = Path(__file__).parents[1] / "data/tls/rest"
AUTHORITY: Final = str(FILES / "authority.pem")


def test_instances_ask_each_other_and_brooklins_clients_need_no_token(
    tmp_path: Path, kafka_pair: KafkaPair, new_instance: NewInstance
) -> None:
    hashes, secret, port = tmp_path / "tokens", tmp_path / "mine", free_ports(1)[0]
    token, entry = new_token(Principal("cli", Role.OPERATOR), 0)
    add_entry(hashes, entry)
    secret.write_text(token)
    settings = {
        "api__tls__certificate_file": str(FILES / "server.pem"),
        "api__tls__key_file": str(FILES / "server.pem"),
        "api__tls__client_ca_file": AUTHORITY,
        "api__tls__client_certificates": "required",
        "api__tls__instances_ca_file": AUTHORITY,
        "api__access__token_file": str(hashes),
    }
    new_instance("one", **settings)
    two = new_instance("two", **settings, api__brooklin__port=str(port), api__brooklin__role="operator")
    mine = ClientSettings(
        ca_file=AUTHORITY, certificate_file=str(FILES / "client.pem"), token_file=str(secret)
    )
    with closing(RestClient(f"https://{two.address}", settings=mine)) as rest:
        wait_until(lambda: said_by_each(rest.get("/v1/instances")) == {"one": True, "two": True})
        lanes = {one["name"]: one["reason"] for one in rest.get("/v1/lanes")["instances"]}
        assert lanes == {"one": "", "two": ""}
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE_SECONDS) as brooklin:
            created = brooklin.post("/datastream", json=a_restli_body(kafka_pair.source.address))
            assert created.status_code == 201, created.text
            assert [one["name"] for one in brooklin.get("/datastream").json()["elements"]] == ["orders"]
            assert brooklin.get("/v1/datastreams").status_code == 404
        assert rest.get("/v1/datastreams/orders")["owner"] == "tests"
    audit = next(line for line in two.log_file.read_text().splitlines() if '"event": "audit"' in line)
    assert '"principal": "brooklin"' in audit


def said_by_each(instances: list[dict[str, Any]]) -> dict[str, bool]:
    """Return by name whether the queried instance has a response of that instance."""
    return {one["name"]: one["state"] == "answered" for one in instances}


def a_restli_body(address: str) -> dict[str, Any]:
    return {
        "name": "orders",
        "connectorName": "headrace",
        "source": {"connectionString": f"kafka://{address}/orders-of-nobody"},
        "metadata": {"owner": "tests"},
    }
