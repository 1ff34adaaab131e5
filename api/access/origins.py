"""Rejects requests that pages of other sites make through a browser. Pure.

If the host name of a page was rebound to this machine (DNS rebinding), the browser sends that name as `Host`.
If another page makes a browser send a change to this service (CSRF), the browser sends the host of that page
as `Origin`.

An IP address is accepted as `Host`, because only a page served by this machine has its address. Old browsers
and some proxies omit both headers. A page still needs a CORS preflight to send JSON, and forms cannot send
JSON.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from mirror.errors import Forbidden, InvalidRequest
from mirror.model.bounds import shown

HOST: Final = "127.0.0.1"
"""Default host of the REST listener."""
PORT: Final = 32_311
"""Default port of the REST listener, which is Brooklin's."""
_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH"})
_HOST: Final = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+))(?::[0-9]{1,5})?")
_LOCAL: Final = "localhost"
_ELSEWHERE: Final = frozenset({"cross-site", "same-site"})
_OF_FORMS: Final = frozenset({"application/x-www-form-urlencoded", "multipart/form-data", "text/plain"})
"""Content types that a page may send to any site without a preflight.

See "CORS-safelisted request-header" in the Fetch standard.
"""
_OWN_PATHS: Final = "/v1/"
_SEND_JSON: Final = "send a JSON body, at least {}, with Content-Type: application/json"


class BodyNotJson(InvalidRequest):
    """Raised if the content type of a change is not JSON: a page of another site could have sent it."""


def check_origin(
    method: str, headers: Mapping[str, str], hosts: frozenset[str], origins: frozenset[str]
) -> None:
    """Raise Forbidden if the Host header is unknown, or if a page of another site requests a change.

    `hosts`: names of this service; `origins`: pages of other sites that may make changes.
    """
    host = headers.get("host", "")
    if host and not is_host(host, hosts):
        raise Forbidden(
            f"unknown host {shown(host)}",
            advice="add it to api.access.allowed_hosts if it is a name of this service",
        )
    if method in _READING:
        return
    origin = headers.get("origin")
    if origin is None:
        if headers.get("sec-fetch-site", "") in _ELSEWHERE:
            raise Forbidden("a web page of another site requested a change")
        return
    if origin not in origins and not (host and _host_of(origin) == host.lower()):
        raise Forbidden(
            f"a web page of {shown(origin)} requested a change",
            advice="add the origin to api.access.allowed_origins if you trust it",
        )


def check_body_type(method: str, path: str, headers: Mapping[str, str]) -> None:
    """Raise BodyNotJson for changes that are not JSON.

    A page of another site could send the content type of a form, or a POST request without a body, without a
    preflight. On Brooklin's paths, a body is not required, because Brooklin's clients send actions without
    one.
    """
    if method in _READING:
        return
    given = headers.get("content-type", "").partition(";")[0].strip().lower()
    if given in _OF_FORMS:
        raise BodyNotJson(f"invalid Content-Type {given}", advice=_SEND_JSON)
    is_json = given == "application/json" or (given.startswith("application/") and given.endswith("+json"))
    if method in _WITH_BODY and path.startswith(_OWN_PATHS) and not is_json:
        raise BodyNotJson("a JSON body is required", advice=_SEND_JSON)


def is_host(host: str, names: frozenset[str]) -> bool:
    """Return whether a Host header is an IP address or one of the names. The header may contain a port."""
    found = _HOST.fullmatch(host)
    if found is None:
        return False
    name = (found[1] or found[2]).rstrip(".").lower()
    return name == _LOCAL or name in names or is_address(name)


def is_address(name: str) -> bool:
    """Return whether a name is an IPv4 or IPv6 address."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _host_of(origin: str) -> str:
    try:
        parts = urlsplit(origin)
    except ValueError:
        return ""
    return parts.netloc.lower() if parts.scheme in ("http", "https") else ""


def is_loopback(host: str) -> bool:
    """Return whether an address is reachable only from this machine. Host names other than localhost do not
    count, because they may resolve to another address later."""
    if host == _LOCAL:
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return address.is_loopback
