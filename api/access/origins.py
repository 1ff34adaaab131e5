"""Whether a browser was led here by somebody else's page. Pure.

A page whose name was made to mean this machine (DNS rebinding) sends that name as `Host`; any other page that
lets a browser change something here (CSRF) sends its own as `Origin`. Addresses are taken as they are: no
page has one as its name but that of the machine itself.

A browser that says neither (an old one, or one behind a proxy that takes headers away) still asks first
before it sends a page's call with a body of JSON, which a form cannot send.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from api.errors import BodyNotJson
from mirror.errors import Forbidden
from mirror.model.bounds import shown

_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_HOST: Final = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+))(?::[0-9]{1,5})?")
_LOCAL: Final = "localhost"
_ELSEWHERE: Final = frozenset({"cross-site", "same-site"})
_OF_FORMS: Final = frozenset({"application/x-www-form-urlencoded", "multipart/form-data", "text/plain"})
"""What a page may send anywhere without asking first (Fetch, "CORS-safelisted request-header")."""
_OWN_PATHS: Final = "/v1/"
_SEND_JSON: Final = "send a body of JSON, {} at least, with Content-Type: application/json"


def check_origin(
    method: str, headers: Mapping[str, str], hosts: frozenset[str], origins: frozenset[str]
) -> None:
    """Raises Forbidden. `hosts`: names of this service; `origins`: of pages that may change things here."""
    host = headers.get("host", "")
    if host and not is_host(host, hosts):
        raise Forbidden(
            f"this service is not called {shown(host)}", advice="add the name to api.access.allowed_hosts"
        )
    if method in _READING:
        return
    origin = headers.get("origin")
    if origin is None:
        if headers.get("sec-fetch-site", "") in _ELSEWHERE:
            raise Forbidden("a page of another site may change nothing here")
        return
    if origin not in origins and not (host and _host_of(origin) == host.lower()):
        raise Forbidden(
            f"a page of {shown(origin)} may change nothing here",
            advice="add it to api.access.allowed_origins if it is yours",
        )


def check_body_type(method: str, path: str, headers: Mapping[str, str]) -> None:
    """Raises BodyNotJson for what a page could send without asking first: bodies of forms, and on /v1 a POST
    without a body. On Brooklin's paths actions have none, as its clients send them."""
    if method in _READING:
        return
    given = headers.get("content-type", "").partition(";")[0].strip().lower()
    if given in _OF_FORMS:
        raise BodyNotJson(f"a change is not sent as {given}", advice=_SEND_JSON)
    is_json = given == "application/json" or (given.startswith("application/") and given.endswith("+json"))
    if method == "POST" and path.startswith(_OWN_PATHS) and not is_json:
        raise BodyNotJson("a change has a body of JSON", advice=_SEND_JSON)


def is_host(host: str, names: frozenset[str]) -> bool:
    """Whether a Host header, with or without port, is an address or one of the names."""
    found = _HOST.fullmatch(host)
    if found is None:
        return False
    name = (found[1] or found[2]).rstrip(".").lower()
    return name == _LOCAL or name in names or is_address(name)


def is_address(name: str) -> bool:
    """Of IPv4 or IPv6."""
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
