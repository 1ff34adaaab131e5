"""The OpenAPI document says what is answered."""

from __future__ import annotations

from typing import Any, Final

from httpx import Client

from api.errors import STATUS
from api.schemas.problems import EVERYWHERE, PROBLEM_TYPE

_NO_OPERATION: Final = {405}
"""A path without such a method has no operation that could name the status."""


def operations_of(client: Client) -> dict[str, Any]:
    paths = client.get("/openapi.json").json()["paths"]
    return {
        f"{method.upper()} {path}": operation
        for path, operations in paths.items()
        if path.startswith("/v1")
        for method, operation in operations.items()
    }


def test_every_status_of_the_table_of_errors_is_documented(client: Client) -> None:
    documented = {
        int(status)
        for operation in operations_of(client).values()
        for status, one in operation["responses"].items()
        if PROBLEM_TYPE in one["content"]
    }
    assert documented == {status.value for status in STATUS.values()} - _NO_OPERATION


def test_every_operation_names_what_any_call_may_be_answered_with(client: Client) -> None:
    for name, operation in operations_of(client).items():
        assert operation["responses"].keys() >= {str(status) for status in EVERYWHERE}, name


def test_an_operation_names_nothing_that_is_never_answered(client: Client) -> None:
    document = client.get("/openapi.json").json()
    assert {"HTTPValidationError", "ValidationError"}.isdisjoint(document["components"]["schemas"])
    assert "422" not in document["paths"]["/v1/lanes"]["get"]["responses"]
