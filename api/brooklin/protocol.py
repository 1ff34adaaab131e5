"""What holds for every call of Rest.li: versions of the protocol, headers, names in addresses."""

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
"""What the Java client leaves as it is in a path, besides letters, digits and `-._`."""


@dataclass(frozen=True, slots=True)
class Protocol:
    """The version that a call is made in. One that says none is of 1.0.0, as plain curl's."""

    text: str

    @property
    def spoken(self) -> str:
        """Version of the answer: the call's, or the newest for a call in a version that is not spoken."""
        return self.text if self.is_supported else "2.0.0"

    @property
    def id_header(self) -> str:
        """Carries the name of what was created."""
        return "X-RestLi-Id" if self._is_second else "X-LinkedIn-Id"

    @property
    def error_header(self) -> str:
        """Marks a refusal."""
        return "X-RestLi-Error-Response" if self._is_second else "X-LinkedIn-Error-Response"

    @property
    def is_supported(self) -> bool:
        """Whether it is one between 1.0.0 and 2.0.0."""
        return _OLDEST <= self._numbers <= _NEWEST

    @property
    def _is_second(self) -> bool:
        return self._numbers >= _NEWEST or not self.is_supported

    @property
    def _numbers(self) -> tuple[int, ...]:
        found = _VERSION.fullmatch(self.text)
        return tuple(map(int, found.groups())) if found else (0,)


def protocol_of(headers: Mapping[str, str]) -> Protocol:
    """The version that the headers of a call say."""
    return Protocol(headers.get(VERSION, "1.0.0"))


def is_brooklins(path: str) -> bool:
    """Whether a path belongs to Brooklin's interface."""
    return path.removeprefix("/").partition("/")[0] in _ROOTS


def check_call(headers: Mapping[str, str]) -> None:
    """Raises RoutingRefusal for a call in a form that is not spoken here."""
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
        raise RoutingRefusal(f"query tunnelling ({OVERRIDE}) is not supported: send the query in the address")


def path_of(name: str) -> str:
    """The address of a datastream as the Java client writes it."""
    return f"/datastream/{quote(name, safe=_KEPT_IN_PATHS)}"


def unsupported(method: str, target: str, headers: Mapping[str, str]) -> RoutingRefusal:
    """For a call that is no method of the resource. `target`: its path and query."""
    asked = headers.get(METHOD, "")
    return RoutingRefusal(
        f"{method} operation not supported for URI: '{target}' with X-RestLi-Method: '{asked}'"
    )


def unknown(method: str, kind: str, target: str) -> RoutingRefusal:
    """For a finder or an action that there is not."""
    resource = "com.linkedin.datastream.server.dms.DatastreamResources"
    return RoutingRefusal(
        f"{method} operation named {kind} not supported on resource '{resource}' URI: '{target}'"
    )
