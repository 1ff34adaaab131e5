"""References to Kafka clusters in datastreams: an alias from the settings, or bootstrap servers."""

from __future__ import annotations

import ipaddress
import re
from fnmatch import fnmatchcase
from typing import Final

from mirror.errors import InvalidRequest
from mirror.model import bounds

_LONGEST_LIST: Final = 4_000
_HOST: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,252})")
_ADVICE: Final = "write an alias of [clusters], or host:port[,host:port…]"
_ADVICE_OF_OTHERS: Final = "write host:port[,host:port…]"


def is_address(reference: str) -> bool:
    """Return whether a reference is a list of bootstrap servers rather than an alias."""
    return ":" in reference or "," in reference


def checked_cluster(label: str, value: object) -> str:
    """Validate a cluster reference. Raises InvalidRequest with the malformed part."""
    reference = bounds.line(label, value, _LONGEST_LIST)
    if is_address(reference):
        bootstrap_servers(label, reference)
    else:
        bounds.line(label, reference)
    return reference


def address_of(host: str, port: int) -> str:
    """Join host and port; an IPv6 address gets brackets, as in `[::1]:8083`."""
    bare = host.removeprefix("[").removesuffix("]")
    return f"[{bare}]:{port}" if ":" in bare else f"{bare}:{port}"


def bootstrap_servers(label: str, text: str) -> tuple[tuple[str, int], ...]:
    """Parse `host:port[,host:port…]` into hosts and ports. IPv6 addresses need brackets: `[::1]:9092`.

    Raises InvalidRequest for an empty or malformed host and for a port outside 1 to 65535.
    """
    return tuple(_server(label, server.strip(), "broker address", _ADVICE) for server in text.split(","))


def server_addresses(label: str, text: str) -> tuple[tuple[str, int], ...]:
    """Parse addresses of servers other than brokers, such as ZooKeeper, which have no aliases."""
    return tuple(_server(label, server.strip(), "address", _ADVICE_OF_OTHERS) for server in text.split(","))


def _server(label: str, address: str, kind: str, advice: str) -> tuple[str, int]:
    if "@" in address:  # the message must not repeat what may be a password
        raise InvalidRequest(f"{label}: an address must not contain credentials", advice=advice)
    host, colon, port = address.rpartition(":")
    if not colon or not _is_host(host):
        raise InvalidRequest(f"{label}: {bounds.shown(address)} is not a valid {kind}", advice=advice)
    return host.strip("[]"), bounds.digits(f"{label}: the port of {bounds.shown(address)}", port, 1, 65_535)


def _is_host(host: str) -> bool:
    if not (host.startswith("[") and host.endswith("]")):
        return _HOST.fullmatch(host) is not None
    try:
        ipaddress.IPv6Address(host[1:-1])
    except ValueError:
        return False
    return True


def is_like(server: tuple[str, int], pattern: str) -> bool:
    """Return whether a server matches a HOST:PORT pattern. IPv6 addresses may be in brackets."""
    host, port, wanted = server[0].lower(), server[1], pattern.lower()
    if wanted.startswith("["):
        return fnmatchcase(address_of(host, port), wanted.replace("[", "[[]"))
    return fnmatchcase(f"{host}:{port}", wanted)
