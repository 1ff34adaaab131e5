"""Response headers for the OpenAPI document."""

from __future__ import annotations

from typing import Any, Final, Literal

HeaderName = Literal["Age", "As-Of-Ms", "ETag", "Link", "Location", "Retry-After", "X-Request-ID"]

HEADERS: Final[dict[HeaderName, dict[str, Any]]] = {
    "Age": {
        "description": "Age of the response in seconds; only while ZooKeeper is unreachable.",
        "schema": {"type": "integer"},
        "example": 12,
    },
    "As-Of-Ms": {
        "description": "Time of the returned state (epoch ms); only while ZooKeeper is unreachable.",
        "schema": {"type": "integer"},
        "example": 1764000000000,
    },
    "ETag": {
        "description": "Version of the definition, for If-Match of a change (RFC 9110).",
        "schema": {"type": "string"},
        "example": '"1764000000000-3"',
    },
    "Link": {
        "description": 'URL of the next page, with rel="next" (RFC 8288); absent on the last page.',
        "schema": {"type": "string"},
        "example": '</v1/datastreams?limit=100&cursor=b3JkZXJz>; rel="next"',
    },
    "Location": {
        "description": "URL of the resource.",
        "schema": {"type": "string", "format": "uri-reference"},
        "example": "/v1/datastreams/orders",
    },
    "Retry-After": {
        "description": "Time to wait before a retry, in seconds.",
        "schema": {"type": "integer"},
        "example": 5,
    },
    "X-Request-ID": {
        "description": "The caller's id if it is a short token, else a new one; log lines contain it.",
        "schema": {"type": "string"},
        "example": "4f1c9d0e7a62b358",
    },
}

OF_MODELS: Final[dict[str, tuple[HeaderName, ...]]] = {
    "DatastreamAnswer": ("ETag",),
    "GroupMembersAnswer": ("ETag",),
    "MoveAnswer": ("ETag",),
}
"""Headers of the responses that return one of these models."""


def described(*names: HeaderName) -> dict[str, Any]:
    """Return the `headers` of a response."""
    return {name: HEADERS[name] for name in names}
