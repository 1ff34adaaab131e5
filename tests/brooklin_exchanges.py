"""Recorded exchanges between Brooklin's client and server, replayed against a Headrace service.

`tests/data/brooklin/exchanges.json` has the exchanges, and the differences here by name with their reasons.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from httpx import Client, Response

_DATA: Final = Path(__file__).parent / "data" / "brooklin" / "exchanges.json"
_EACH: Final = "<each>"
_ADDED: Final = {"cache-control", "x-content-type-options"}
"""Headers that Brooklin does not send, and that its clients ignore."""
_NOT_COMPARED: Final = {"date", "server", "content-length", "connection", "allow", "x-request-id"} | _ADDED
VERSION: Final = "X-RestLi-Protocol-Version"
STORIES: Final = ("client", "curl")
PROTOCOLS: Final = ("2.0.0", "1.0.0")

Exchange = Mapping[str, Any]


def exchanges(story: str, protocol: str, names: Mapping[str, str]) -> Iterator[Exchange]:
    """Yield the exchanges of one story in this protocol version. `names`: replacements of recorded names."""
    text = _DATA.read_text(encoding="utf-8")
    for recorded, here in names.items():
        text = text.replace(recorded, here)
    document = json.loads(text)
    for exchange in document[story]:
        yield exchange if protocol == "2.0.0" else _in_the_first_version(exchange)


def _in_the_first_version(exchange: Exchange) -> Exchange:
    """Convert to the request of plain curl: no version, one `ids` per key of a batch, two headers renamed."""
    request, answer = dict(exchange["request"]), dict(exchange["answer"])
    request["headers"] = {key: value for key, value in request["headers"].items() if key != VERSION}
    found = re.fullmatch(r"/datastream\?ids=List\((.*)\)", request["target"])
    if found and request["method"] == "PUT":
        keys = "&".join(f"ids={key}" for key in found[1].split(",") if key)
        request["target"] = f"/datastream?{keys}" if keys else "/datastream"
    answer["headers"] = {
        key.replace("X-RestLi-Id", "X-LinkedIn-Id").replace("X-RestLi-Error", "X-LinkedIn-Error"): value
        for key, value in answer["headers"].items()
    }
    if VERSION in answer["headers"]:
        answer["headers"][VERSION] = "1.0.0"
    return {**exchange, "request": request, "answer": answer}


class Replay:
    """Replay against one service. `instance`: its name.

    `until`: waits for a condition or gives up, as a GET may take a while to return the expected response.
    """

    def __init__(
        self, client: Client, instance: str, until: Callable[[Callable[[], bool], str], object]
    ) -> None:
        self._client = client
        self._names = {"{instance}": instance}
        self._until = until
        self._complaint = ""

    def ask(self, exchange: Exchange) -> None:
        """Send the request. Raises AssertionError with the differences of the response."""
        if exchange["request"]["method"] == "GET":
            self._until(lambda: self._fits(exchange), exchange["name"])
        else:
            self._fits(exchange)
        assert not self._complaint, self._complaint

    def _fits(self, exchange: Exchange) -> bool:
        """Return whether the response equals the recorded one. A transient exchange may already be gone."""
        answer = self._send(exchange["request"])
        difference = "; ".join(self._differences(exchange["answer"], answer))
        if exchange.get("passes") and answer.status_code == HTTPStatus.NOT_FOUND:
            difference = ""
        self._complaint = difference and f"{exchange['name']}: {difference}\n{answer.text}"
        if exchange["request"]["method"] == "GET" and answer.is_success and not difference:
            self._note(answer.json())
        return not difference

    def _note(self, body: Mapping[str, Any]) -> None:
        """Store names from the response that later requests repeat."""
        for one in body.get("elements", [body]):
            if "name" in one and "metadata" in one:
                self._names[f"{{created {one['name']}}}"] = one["metadata"]["system.creation.ms"]
        for connector in body.get("connectors", ()):
            self._names["{task}"] = connector["tasks"][0]["name"]

    def _send(self, request: Mapping[str, Any]) -> Response:
        content = request.get("text")
        if content is None and request["body"] is not None:
            content = self._named(json.dumps(request["body"]))
        bare = _request(self._client, request["method"], request["target"], request["headers"], content)
        return self._client.send(bare)

    def _differences(self, wanted: Mapping[str, Any], found: Response) -> Iterator[str]:
        if found.status_code != wanted["status"]:
            yield f"status {found.status_code}, not {wanted['status']}"
        headers = {key.lower(): value for key, value in wanted["headers"].items()}
        present = {key: value for key, value in found.headers.items() if key not in _NOT_COMPARED}
        if present != headers:
            yield f"headers {present}, not {headers}"
        body = json.loads(found.content) if found.content else None
        yield from self._in_body(wanted["body"], body, "body")

    def _in_body(self, wanted: Any, found: Any, where: str) -> Iterator[str]:
        if isinstance(wanted, dict) and isinstance(found, dict):
            for key in sorted(wanted.keys() | found.keys()):
                if key not in wanted or key not in found:
                    yield f"{where}.{key} is {'missing' if key in wanted else 'unexpected'}"
                else:
                    yield from self._in_body(wanted[key], found[key], f"{where}.{key}")
        elif isinstance(wanted, list) and isinstance(found, list):
            every = wanted[1:] * len(found) if wanted[:1] == [_EACH] else wanted
            if len(every) != len(found) or (wanted and not found):
                yield f"{where} has {len(found)} elements"
            for number, (one, other) in enumerate(zip(every, found, strict=False)):
                yield from self._in_body(one, other, f"{where}[{number}]")
        elif not self._is_like(wanted, found):
            yield f"{where} is {found!r}, not {wanted!r}"

    def _is_like(self, wanted: Any, found: Any) -> bool:
        if not isinstance(wanted, str) or not isinstance(found, str):
            return bool(wanted == found)
        parts = map(re.escape, self._named(wanted).split("<any>"))
        return re.fullmatch(".*".join(parts), found, re.DOTALL) is not None

    def _named(self, text: str) -> str:
        for placeholder, name in self._names.items():
            text = text.replace(placeholder, name)
        return text


def _request(
    client: Client, method: str, target: str, headers: Mapping[str, str], content: str | None
) -> Any:
    """Build a request with these headers only, without defaults that would change the response."""
    request = client.build_request(method, target, headers=headers, content=content)
    for name in ("Accept", "Content-Type"):
        if name not in headers:
            request.headers.pop(name, None)
    return request
