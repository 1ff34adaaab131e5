"""Every operation of the OpenAPI document, asked with what the document allows and with what it does not.

Schemathesis makes the calls and checks the answers with all its checks: status, type, headers and body are as
the document says; what it does not allow is refused, what it allows is not; nothing is answered with 500.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from jsonschema_rs import validator_for
from schemathesis.config import SchemathesisConfig

from mirror.coordination.stores import znodes
from mirror.lane.ledger import OffsetClass
from mirror.model.topics import TopicDescription, TopicPartition
from pinot.history.points import LatencyHistory, step_for
from tests.builders import a_key, a_progress
from tests.fakes.site import Site
from tests.patience import PATIENCE_SECONDS

CALLS: Final = 20
"""Of each operation, besides those that cover its parameters and fields one by one."""

REFUSED: Final = ("400", "404", "409", "412", "422", "428", "503")
"""What a schema allows may be refused all the same: a schema cannot say which regular expressions RE2 reads,
which clusters the settings name, which version is the present one; health is 503 where a part is not well."""

CONFIG: Final = SchemathesisConfig.from_dict(
    {
        "seed": 18,
        "request-timeout": PATIENCE_SECONDS,
        "generation": {"deterministic": True, "max-examples": CALLS, "database": "none"},
        "checks": {
            "positive_data_acceptance": {"expected-statuses": ["2xx", *REFUSED]},
            "negative_data_rejection": {
                "expected-statuses": ["400", "404", "405", "409", "415", "422", "428"]
            },
        },
    }
)
JSON_ONLY: Final = "application/json"
"""A stream of events has no end that a check could wait for; its own tests read it piece by piece."""

BEFORE: Final = {
    "/v1/datastreams/{name}/resume": "/v1/datastreams/orders/pause",
    "/v1/groups/{prefix}/resume": "/v1/datastreams/orders/pause",
    "/v1/operations/{operation}": "/v1/rebalance",
    "/v1/plans/{identity}": "/v1/datastreams/orders/plan",
    "/v1/plans/{identity}/apply": "/v1/datastreams/orders/plan",
}
"""What makes an example possible."""

DOCUMENT: Final = Site().client.get("/v1/openapi.json").json()
SCHEMA: Final = schemathesis.openapi.from_dict(DOCUMENT, config=CONFIG)


SAFE: Final = {"x-content-type-options": "nosniff", "cache-control": "no-store"}.items()


def operations() -> Iterator[Any]:
    for path, methods in DOCUMENT["paths"].items():
        for method, operation in methods.items():
            yield pytest.param(method, path, operation, id=f"{method.upper()} {path}")


def with_history() -> Site:
    """A service whose Pinot answers, and has measured nothing."""
    site = Site()
    site.load_history = lambda _: {}
    site.latency_history = lambda asked: LatencyHistory(step_for(asked.when, asked.points), ())
    return site


@pytest.fixture(scope="module")
def site() -> Site:
    """One service for all calls: each meets what those before it have left."""
    return with_history()


@SCHEMA.parametrize()
@settings(deadline=None, suppress_health_check=list(HealthCheck))
def test_what_is_answered_is_what_the_document_says(case: schemathesis.Case[Any], site: Site) -> None:
    if not site.definitions.all().readable:
        site.create()
    if "If-Match" in case.headers:  # else hardly any change would get further than to its version
        case.headers["If-Match"] = "*"
    case.headers["Accept"] = JSON_ONLY
    case.call_and_validate(app=site.app)


@pytest.mark.parametrize(("method", "path", "operation"), list(operations()))
def test_the_example_of_an_operation_is_accepted(method: str, path: str, operation: dict[str, Any]) -> None:
    site = with_history()
    site.source.topics["orders.created"] = TopicDescription("orders.created", 2)
    if (method, path) != ("post", "/v1/datastreams"):
        body = DOCUMENT["paths"]["/v1/datastreams"]["post"]["requestBody"]
        site.client.post("/v1/datastreams", json=example_of(body)).raise_for_status()
    site.tick()
    site.progress = {
        a_key("orders.created-0"): a_progress((OffsetClass.MIRRORED, 1_000), target_topic="orders.created")
    }
    site.source.committed["billing", TopicPartition("orders.created", 0)] = 500
    if path in BEFORE:
        before = DOCUMENT["paths"].get(BEFORE[path], {}).get("post", {})
        body = before.get("requestBody", {})
        site.client.post(BEFORE[path], json=example_of(body) or {}).raise_for_status()
        site.tick()
    if path.startswith("/v1/lost-datastreams"):
        site.server.session().delete_tree(znodes.DATASTREAMS)
        site.tick()
    parameters = operation.get("parameters", ())
    answer = site.client.request(
        method,
        path.format_map({one["name"]: one["example"] for one in parameters}),
        params={one["name"]: one["example"] for one in parameters if one["in"] == "query"},
        headers={"If-Match": "*"},
        json=example_of(operation.get("requestBody", {})),
    )
    assert answer.is_success, answer.text
    assert answer.headers.items() >= SAFE


def example_of(body: dict[str, Any]) -> Any:
    (media,) = body.get("content", {"": {"example": None}}).values()
    return media["example"]


def test_every_example_is_what_its_schema_allows() -> None:
    components = DOCUMENT["components"]
    found = {name: one["examples"][0] for name, one in components["schemas"].items()}
    wrong = {
        name: error.message
        for name, example in found.items()
        for error in validator_for(
            {"$ref": f"#/components/schemas/{name}", "components": components}
        ).iter_errors(example)
    }
    assert wrong == {}
