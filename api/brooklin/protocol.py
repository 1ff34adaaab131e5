"""Rules for every Rest.li request: protocol versions, headers, and names in paths."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final
from urllib.parse import quote

from api.brooklin.refusals import RoutingRefusal
from mirror.model.bounds import shown

VERSION: Final = "X-RestLi-Protocol-Version"
METHOD: Final = "X-RestLi-Method"
OVERRIDE: Final = "X-HTTP-Method-Override"
_OLDEST: Final = (1, 0, 0)
_NEWEST: Final = (2, 0, 0)
_VERSION: Final = re.compile(r"([0-9]{1,9})\.([0-9]{1,9})\.([0-9]{1,9})")
_ROOTS: Final = frozenset({"datastream", "diag", "health"})
_JSON: Final = frozenset({"application/json", "application/*", "*/*"})
_KEPT_IN_PATHS: Final = "=&+$@!*~"
"""Characters that the Java client leaves unescaped in a path, besides letters, digits and `-._`."""


@dataclass(frozen=True, slots=True)
class RestliProtocol:
    """Protocol version of a request. Without a version it is 1.0.0, as with plain curl."""

    text: str

    @property
    def spoken(self) -> str:
        """Version of the response: version of the request if supported, else the newest supported one."""
        return self.text if self.is_supported else "2.0.0"

    @property
    def id_header(self) -> str:
        """Name of the header with the key of a created entity."""
        return "X-RestLi-Id" if self._is_second else "X-LinkedIn-Id"

    @property
    def error_header(self) -> str:
        """Name of the header that marks errors."""
        return "X-RestLi-Error-Response" if self._is_second else "X-LinkedIn-Error-Response"

    @property
    def is_supported(self) -> bool:
        """True if the version is between 1.0.0 and 2.0.0."""
        return _OLDEST <= self._numbers <= _NEWEST

    @property
    def _is_second(self) -> bool:
        return self._numbers >= _NEWEST or not self.is_supported

    @property
    def _numbers(self) -> tuple[int, ...]:
        found = _VERSION.fullmatch(self.text)
        return tuple(map(int, found.groups())) if found else (0,)


def protocol_of(headers: Mapping[str, str]) -> RestliProtocol:
    """Return the version given in the headers of a request."""
    return RestliProtocol(headers.get(VERSION, "1.0.0"))


def is_brooklins(path: str) -> bool:
    """Return whether a path belongs to Brooklin's interface."""
    return path.removeprefix("/").partition("/")[0] in _ROOTS


def check_call(headers: Mapping[str, str]) -> None:
    """Raise RoutingRefusal for an unsupported version, Accept header or method override."""
    protocol = protocol_of(headers)
    if not protocol.is_supported:
        raise RoutingRefusal(
            f"Rest.li protocol version {shown(protocol.text)} used by the client is not supported!"
        )
    ranges = [one.partition(";")[0].strip().lower() for one in headers.get("Accept", "*/*").split(",")]
    if not _JSON.intersection(ranges):
        raise RoutingRefusal(
            "None of the types in the request's 'Accept' header are supported."
            " Supported MIME types are: [application/json]",
            HTTPStatus.NOT_ACCEPTABLE,
        )
    if OVERRIDE in headers:
        raise RoutingRefusal(f"query tunnelling ({OVERRIDE}) is not supported: send the query in the URL")


def path_of(name: str) -> str:
    """Return the path of a datastream, encoded as by the Java client."""
    return f"/datastream/{quote(name, safe=_KEPT_IN_PATHS)}"


def unsupported(method: str, target: str, headers: Mapping[str, str]) -> RoutingRefusal:
    """Return the error for a method that the resource does not have. `target`: path and query."""
    method_override = headers.get(METHOD, "")
    return RoutingRefusal(
        f"{method} operation not supported for URI: '{target}' with X-RestLi-Method: '{method_override}'"
    )


def unknown(method: str, kind: str, target: str) -> RoutingRefusal:
    """Return the error for an unknown finder or action."""
    resource = "com.linkedin.datastream.server.dms.DatastreamResources"
    return RoutingRefusal(
        f"{method} operation named {kind} not supported on resource '{resource}' URI: '{target}'"
    )
