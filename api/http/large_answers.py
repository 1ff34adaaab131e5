"""JSON of responses that grow with the number of partitions or topics.

FastAPI validates and serializes a response on the event loop, which serves no other request in the meantime.
Endpoints with large responses therefore serialize them in a thread. Lists are serialized element by element,
because the interpreter runs no other thread during one call of the serializer.
"""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from fastapi import Response
from pydantic import BaseModel

from api.http.problems import json_text

Answer = BaseModel | Sequence[BaseModel]
"""Response model, or a list of them."""


def large_response(answer: Answer, response: Response) -> Response:
    """Return a response with the same document that FastAPI returns for `answer`.

    `response`: its headers and its status are copied. Call this function in a thread.
    """
    return Response(
        json_of(answer),
        response.status_code or HTTPStatus.OK,
        dict(response.headers),
        media_type="application/json",
    )


def json_of(answer: Answer) -> bytes:
    """Serialize a response model, or a list of response models."""
    if not isinstance(answer, BaseModel):
        return _list_text(answer)
    lists = {name: value for name, value in answer if _is_list_of_models(value)}
    rest = answer.model_dump(mode="json", exclude=set(lists))
    pairs = (
        json_text(name) + b":" + (_list_text(lists[name]) if name in lists else json_text(rest[name]))
        for name, _ in answer
    )
    return b"{" + b",".join(pairs) + b"}"


def _list_text(values: Sequence[BaseModel]) -> bytes:
    return b"[" + b",".join(json_text(value.model_dump(mode="json")) for value in values) + b"]"


def _is_list_of_models(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, BaseModel) for each in value)
