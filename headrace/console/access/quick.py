"""Reads only the settings that calling a service needs, without importing the settings of all packages."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from api.access.origins import HOST, PORT
from headrace.console.access.caller import CallerSettings, ServiceAccess, services_at
from headrace.console.access.document import NOT_SETTINGS, PREFIX, port_offset, read_document
from mirror.model.clusters import address_of

_TEXTS: Final = ("token_file", "ca_file", "certificate_file", "key_file")
_HIGHEST_PORT: Final = 65_535


def quick_access(config: Path | None, at: str) -> ServiceAccess | None:
    """Return addresses and credentials of a service; None if they require loading the full settings.

    The full settings are required if environment variables set keys, or if the sections `api` and `commands`
    have invalid or unusual values. Raises ConfigError for an unreadable file; InvalidRequest for an invalid
    address.
    """
    if any(variable.startswith(PREFIX) and variable not in NOT_SETTINGS for variable in os.environ):
        return None
    document = read_document(config)
    api, commands = _section(document, "api"), _section(document, "commands")
    if api is None or commands is None:
        return None
    tls, addresses = _section(api, "tls"), commands.get("addresses", [])
    host, port = api.get("host", HOST), api.get("port", PORT + port_offset())
    texts = {name: commands.get(name, "") for name in _TEXTS}
    certificate = tls.get("certificate_file", "") if tls is not None else None
    if not (
        commands.keys() <= {"addresses", *_TEXTS}
        and all(isinstance(text, str) for text in (host, certificate, *texts.values()))
        and isinstance(addresses, list)
        and all(isinstance(address, str) and "," not in address for address in addresses)
        and type(port) is int
        and 0 <= port <= _HIGHEST_PORT
        and (texts["certificate_file"] or not texts["key_file"])
    ):
        return None
    is_tls = bool(certificate or texts["ca_file"] or texts["certificate_file"])
    given = at or ",".join(addresses) or address_of(host, port)
    return ServiceAccess(services_at(given, is_tls=is_tls), CallerSettings(**texts))


def _section(document: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    """Return a section of the settings: empty if it is missing, None if it is not a TOML table."""
    found = document.get(name, {})
    return found if isinstance(found, dict) else None
