"""Test the cost of request bodies: small ones are checked first, and no error response is long."""

from __future__ import annotations

import asyncio

import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from api.http.middleware import CheckedBodies
from mirror.errors import HeadraceError
from tests.fakes.in_process import client_of
from tests.fakes.site import Site

LARGE = b"[" + b"1," * 400_000 + b"1]"


async def served(*bodies: bytes) -> list[int]:
    """Return the sizes of concurrently received bodies in the order in which the application reads them."""
    order: list[int] = []

    async def application(_: Scope, receive: Receive, __: Send) -> None:
        order.append(len((await receive())["body"]))

    async def refuse(_: Request, error: HeadraceError) -> Response:
        raise error

    async def send(_: Message) -> None:
        raise AssertionError("unexpected response")

    def call(body: bytes) -> Receive:
        async def receive() -> Message:
            return {"type": "http.request", "body": body, "more_body": False}

        return receive

    checked = CheckedBodies(application, refuse, 60.0)
    await asyncio.gather(
        *(checked({"type": "http", "path": "/v1/groups"}, call(body), send) for body in bodies)
    )
    return order


def test_a_small_body_does_not_wait_for_those_that_came_before() -> None:
    assert asyncio.run(served(LARGE, LARGE, b"{}")) == [2, len(LARGE), len(LARGE)]


@pytest.mark.parametrize("count", [5_000, 40_000])
def test_an_answer_is_no_longer_where_nothing_is_right(count: int) -> None:
    client = client_of(Site().app)
    keys = dict.fromkeys((f"key-{number}" for number in range(count)), 1)
    for body in (keys, {"name": "x", "metadata": keys}):
        answer = client.post("/v1/datastreams", json=body)
        assert answer.status_code == 400
        assert len(answer.content) < 20_000
        assert len(answer.json().get("errors", ())) <= 100
