"""Headers of answers as the OpenAPI document shows them."""

from __future__ import annotations

from typing import Any, Final, Literal

HeaderName = Literal["Age", "As-Of-Ms", "ETag", "Link", "Location", "Retry-After", "X-Request-ID"]

HEADERS: Final[dict[HeaderName, dict[str, Any]]] = {
    "Age": {
        "description": "Seconds since the answer was true; only while ZooKeeper does not answer.",
        "schema": {"type": "integer"},
        "example": 12,
    },
    "As-Of-Ms": {
        "description": "When the answer was true (epoch ms); only while ZooKeeper does not answer.",
        "schema": {"type": "integer"},
        "example": 1764000000000,
    },
    "ETag": {
        "description": "The version of the definition, for If-Match of a change (RFC 9110).",
        "schema": {"type": "string"},
        "example": '"1764000000000-3"',
    },
    "Link": {
        "description": 'Where the next page is, with rel="next" (RFC 8288); left out on the last one.',
        "schema": {"type": "string"},
        "example": '</v1/datastreams?limit=100&cursor=b3JkZXJz>; rel="next"',
    },
    "Location": {
        "description": "Where it is.",
        "schema": {"type": "string", "format": "uri-reference"},
        "example": "/v1/datastreams/orders",
    },
    "Retry-After": {
        "description": "Seconds to wait before the call is made again.",
        "schema": {"type": "integer"},
        "example": 5,
    },
    "X-Request-ID": {
        "description": "The caller's where it is a short token, else a new one; lines of the log have it.",
        "schema": {"type": "string"},
        "example": "4f1c9d0e7a62b358",
    },
}

OF_MODELS: Final[dict[str, tuple[HeaderName, ...]]] = {
    "DatastreamAnswer": ("ETag",),
    "GroupMembersAnswer": ("ETag",),
    "MoveAnswer": ("ETag",),
}
"""Headers of the answers that are about one of these."""


def described(*names: HeaderName) -> dict[str, Any]:
    """For the `headers` of a response."""
    return {name: HEADERS[name] for name in names}
