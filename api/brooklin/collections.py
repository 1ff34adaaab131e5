"""Collections in Rest.li format: elements, page, links to adjacent pages, and field projection."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlencode

from api.brooklin.refusals import RoutingRefusal
from mirror.errors import InvalidRequest
from mirror.model import bounds

_USUAL_COUNT: Final = 10
"""Count that Rest.li reports for a request without one, although Brooklin then returns all elements."""
_DEEPEST: Final = 20
Mask = dict[str, "Mask | None"]
"""Requested fields, each with the requested fields within it; None: all."""


@dataclass(frozen=True, slots=True)
class CollectionPage:
    """Requested part of a collection. `count` None: everything from `start`."""

    start: int = 0
    count: int | None = None

    @classmethod
    def of(cls, query: Mapping[str, str]) -> CollectionPage:
        """Parse a query. Raises RoutingRefusal for invalid numbers."""
        start, count = _number(query, "start"), _number(query, "count")
        return cls(start or 0, count)

    def of_all(self, elements: Sequence[Any]) -> Sequence[Any]:
        """Return the elements of this page."""
        end = None if self.count is None else self.start + self.count
        return elements[self.start : end]


def collection(
    elements: Sequence[Any], page: CollectionPage, path: str, query: Mapping[str, str]
) -> dict[str, Any]:
    """Return the response for one page of elements. A full page implies a next one."""
    count = _USUAL_COUNT if page.count is None else page.count
    paging: dict[str, Any] = {"start": page.start, "count": count}
    if count:
        links = []
        if page.start:
            links.append(_link("prev", max(0, page.start - count), count, path, query))
        if len(elements) == count:
            links.append(_link("next", page.start + count, count, path, query))
        paging["links"] = links
    return {"elements": list(elements), "paging": paging}


def chosen_fields(query: Mapping[str, str]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return the projection requested by `fields=name,source:(connectionString)`. Raises RoutingRefusal."""
    text = query.get("fields", "")
    if not text:
        return lambda document: document
    mask, rest = _mask(text, 0)
    if rest:
        raise _unreadable(text)
    return lambda document: _masked(document, mask)


def _number(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name)
    if text is None:
        return None
    if text.startswith("-"):
        raise RoutingRefusal("start/count parameters must be non-negative")
    try:
        return bounds.digits(name, text, 0, bounds.LARGEST_PARTITION)
    except InvalidRequest as error:
        raise RoutingRefusal(f"Invalid value for parameter '{name}': {error.message}") from error


def _link(rel: str, start: int, count: int, path: str, query: Mapping[str, str]) -> dict[str, str]:
    others = {key: value for key, value in query.items() if key not in {"start", "count"}}
    parameters = urlencode({"start": start, "count": count, **others}, quote_via=quote)
    return {"rel": rel, "type": "application/json", "href": f"{path}?{parameters}"}


def _mask(text: str, depth: int) -> tuple[Mask, str]:
    """Parse names up to the end or a closing bracket, and return them with the remaining text."""
    found: Mask = {}
    while depth <= _DEEPEST:
        end = next((at for at, one in enumerate(text) if one in ",:()"), len(text))
        name, rest = text[:end], text[end:]
        if not name:
            break
        found[name] = None
        if rest.startswith(":("):
            found[name], rest = _mask(rest[2:], depth + 1)
            if not rest.startswith(")"):
                break
            rest = rest[1:]
        if not rest.startswith(","):
            return found, rest
        text = rest[1:]
    raise _unreadable(text)


def _masked(document: dict[str, Any], mask: Mask) -> dict[str, Any]:
    left = {}
    for name, value in document.items():
        if name in mask:
            inner = mask[name]
            left[name] = _masked(value, inner) if inner is not None and isinstance(value, dict) else value
    return left


def _unreadable(text: str) -> RoutingRefusal:
    return RoutingRefusal(f"Invalid value for parameter 'fields': {bounds.shown(text)}")
