"""Test that the OpenAPI document describes the actual responses."""

from __future__ import annotations

from importlib import import_module
from pkgutil import walk_packages
from typing import Any, Final

from httpx import Client
from pydantic import BaseModel

from api import resources
from api.http.problems import EVERYWHERE, PROBLEM_TYPE, STATUS
from tests.fakes.site import openapi_document

_NO_OPERATION: Final = {405}
"""Statuses without an operation: 405 is the response to a method that the path does not have."""


def operations() -> dict[str, Any]:
    return {
        f"{method.upper()} {path}": operation
        for path, operations in openapi_document()["paths"].items()
        if path.startswith("/v1")
        for method, operation in operations.items()
    }


def test_every_status_of_the_table_of_errors_is_documented() -> None:
    documented = {
        int(status)
        for operation in operations().values()
        for status, one in operation["responses"].items()
        if PROBLEM_TYPE in one["content"]
    }
    assert documented == {status.value for status in STATUS.values()} - _NO_OPERATION


def test_every_operation_names_what_any_call_may_be_answered_with() -> None:
    for name, operation in operations().items():
        assert operation["responses"].keys() >= {str(status) for status in EVERYWHERE}, name


def test_no_two_operations_have_one_name() -> None:
    names = [one["operationId"] for one in operations().values()]
    assert sorted(set(names)) == sorted(names)


def test_an_operation_names_nothing_that_is_never_answered() -> None:
    document = openapi_document()
    assert {"HTTPValidationError", "ValidationError"}.isdisjoint(document["components"]["schemas"])
    assert "422" not in document["paths"]["/v1/lanes"]["get"]["responses"]


def test_everything_has_a_description_and_an_example() -> None:
    document = openapi_document()
    assert (document["openapi"], bool(document["servers"])) == ("3.1.0", True)
    assert [name for name, one in document["components"]["schemas"].items() if not one["examples"]] == []
    assert [name for name, one in document["components"]["schemas"].items() if not one["description"]] == []
    described = {tag["name"] for tag in document["tags"] if tag["description"]}
    for name, operation in operations().items():
        assert operation["description"], name
        assert set(operation["tags"]) <= described, name
        for parameter in operation.get("parameters", ()):
            assert parameter["example"] is not None, (name, parameter["name"])
            assert parameter["description"], (name, parameter["name"])
        bodies = {"body": operation.get("requestBody", {}), **operation["responses"]}
        for kind, body in bodies.items():
            assert [one for one in body.get("content", {}).values() if one.get("example") is None] == [], (
                name,
                kind,
            )


def test_the_document_and_its_page_are_there(client: Client) -> None:
    assert "/v1/openapi.json" in client.get("/v1/docs").text
    assert client.get("/openapi.json").status_code == 404


def test_every_answer_documents_its_headers() -> None:
    for name, operation in operations().items():
        for status, one in operation["responses"].items():
            assert "X-Request-ID" in one["headers"], (name, status)
            if status == "503" and PROBLEM_TYPE in one["content"]:
                assert "Retry-After" in one["headers"], name


def test_no_body_is_made_of_values_of_another_type() -> None:
    modules = [import_module(one.name) for one in walk_packages(resources.__path__, "api.resources.")]
    bodies = {
        one
        for module in modules
        for name, one in vars(module).items()
        if name.endswith("Body") and isinstance(one, type) and issubclass(one, BaseModel)
    }
    assert len(bodies) > 10
    assert [one for one in bodies if not one.model_config.get("strict")] == []
