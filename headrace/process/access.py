"""Builds the access control of REST from the settings."""

from __future__ import annotations

import socket
from functools import partial
from pathlib import Path
from typing import Final

from api.access.gate import AccessMethods, Rate, Throttle, TokenIssuer
from api.access.listener_settings import LimitSettings
from api.access.rights import Action, Principal
from api.access.tokens import TokenFile, check_not_reserved, principal_named
from api.settings import ApiSettings
from mirror.errors import ConfigError, InvalidRequest
from mirror.instance.health import Health
from mirror.loggers import get_logger
from mirror.ports import Clock

_log = get_logger(__name__)
BROOKLIN: Final = "brooklin"
"""Name of the listener for Brooklin clients, and of their principal."""


def access_of_settings(api: ApiSettings, advertised: str, clock: Clock, health: Health) -> AccessMethods:
    """Build the access control of REST. Raises ConfigError if the token file is unreadable or a name is
    invalid.

    If the token file becomes unreadable later, this is reported to `health`.
    """
    file, on_change = api.access.token_file, partial(_report_tokens, health)
    tokens = TokenFile(Path(file), clock, on_change) if file else None
    if tokens is not None:
        tokens.check()
    return AccessMethods(
        tokens=tokens,
        issuer=_issuer(api, clock),
        certificates=_certificates(api),
        listeners={BROOKLIN: Principal(BROOKLIN, api.brooklin.role, frozenset(api.brooklin.owners))},
        open_to_all=frozenset(Action[action.upper()] for action in api.access.open_to_all),
        hosts=service_names(api, advertised),
        origins=frozenset(api.access.allowed_origins),
        throttle=_throttle(api.limits, clock),
    )


def _issuer(api: ApiSettings, clock: Clock) -> TokenIssuer | None:
    """Return the token issuer (OpenID Connect) in the settings, or None.

    The libraries that verify signatures are imported only with an issuer, because workers import this module,
    too.
    """
    if not api.access.oidc.issuer:
        return None
    from headrace.process.oidc.provider import issuer_of

    return issuer_of(api.access.oidc, clock)


def _report_tokens(health: Health, problem: str) -> None:
    """Report in the health of the instance whether the token file is readable.

    The instance remains healthy, because copying continues. The path of the file is only logged, because the
    health report may be public.
    """
    if problem:
        _log.warning("cannot read the token file", reason=problem)
        health.report("tokens", True, "TOKENS REJECTED: cannot read the token file; see the log")
    else:
        health.forget("tokens")
        _log.info("token file is readable again")


def _throttle(limits: LimitSettings, clock: Clock) -> Throttle | None:
    if not limits.calls_per_second:
        return None
    return Throttle(Rate(limits.calls_per_second, limits.burst), clock.monotonic)


def _certificates(api: ApiSettings) -> dict[str, Principal]:
    found: dict[str, Principal] = {}
    for name, certificate in api.access.certificates.items():
        key = f"api.access.certificates.{name}"
        try:
            principal = principal_named(name, certificate.role, certificate.owners)
            check_not_reserved(name, api.access.oidc.name_prefix)
        except InvalidRequest as error:
            raise ConfigError(f"{key}: {error}") from error
        if certificate.subject in found:
            raise ConfigError(f"{key}: duplicate subject, also used by {found[certificate.subject].name}")
        found[certificate.subject] = principal
    if found and not api.tls.client_ca_file:
        raise ConfigError("api.access.certificates requires api.tls.client_ca_file to verify certificates")
    return found


def service_names(api: ApiSettings, advertised: str) -> frozenset[str]:
    """Return the host names of the service in lower case. `advertised`: HOST:PORT."""
    own = socket.gethostname()
    named = [api.host, own, socket.getfqdn(own), *api.access.allowed_hosts]
    named.append(advertised.removeprefix("https://").rpartition(":")[0])
    return frozenset(host.strip("[]").rstrip(".").lower() for host in named if host)
