"""Who may call, out of the settings."""

from __future__ import annotations

import socket
from functools import partial
from pathlib import Path
from typing import Final

import structlog

from api.access.gate import Access, TokenIssuer
from api.access.rates import Rate
from api.access.rights import Action, Principal
from api.access.settings import LimitSettings
from api.access.throttle import Throttle
from api.access.tokens import TokenFile, check_not_reserved, principal_named
from api.settings import ApiSettings
from mirror.errors import ConfigError, InvalidRequest
from mirror.instance.health import Health
from mirror.ports import Clock

_log = structlog.get_logger(__name__)
BROOKLIN: Final = "brooklin"
"""The listener of Brooklin's clients, and the principal that they are."""


def who_may_call(api: ApiSettings, advertised: str, clock: Clock, health: Health) -> Access:
    """`health`: shows where tokens cannot be read any more. Raises ConfigError for those that cannot be read
    now, and for names that cannot be."""
    file, tell = api.access.token_file, partial(_report_tokens, health)
    tokens = TokenFile(Path(file), clock, tell) if file else None
    if tokens is not None:
        tokens.check()
    return Access(
        tokens=tokens,
        issuer=_issuer(api, clock),
        certificates=_certificates(api),
        listeners={BROOKLIN: Principal(BROOKLIN, api.brooklin.role, frozenset(api.brooklin.owners))},
        open_to_all=frozenset(Action[one.upper()] for one in api.access.open_to_all),
        hosts=service_names(api, advertised),
        origins=frozenset(api.access.allowed_origins),
        throttle=_throttle(api.limits, clock),
    )


def _issuer(api: ApiSettings, clock: Clock) -> TokenIssuer | None:
    """Only where there is one are the libraries that verify signatures loaded: workers load this module."""
    if not api.access.oidc.issuer:
        return None
    from headrace.process.oidc.provider import issuer_of

    return issuer_of(api.access.oidc, clock)


def _report_tokens(health: Health, problem: str) -> None:
    """The instance is well, as it copies on. Health may be open to all: only the log names the file."""
    if problem:
        _log.warning("no token is taken", reason=problem)
        health.report("tokens", True, "NO TOKEN IS TAKEN: their file cannot be read; the log has why")
    else:
        health.forget("tokens")
        _log.info("tokens are taken again")


def _throttle(limits: LimitSettings, clock: Clock) -> Throttle | None:
    if not limits.calls_per_second:
        return None
    return Throttle(Rate(limits.calls_per_second, limits.burst), clock.monotonic)


def _certificates(api: ApiSettings) -> dict[str, Principal]:
    found: dict[str, Principal] = {}
    for name, one in api.access.certificates.items():
        key = f"api.access.certificates.{name}"
        try:
            principal = principal_named(name, one.role, one.owners)
            check_not_reserved(name, api.access.oidc.name_prefix)
        except InvalidRequest as error:
            raise ConfigError(f"{key}: {error}") from error
        if one.subject in found:
            raise ConfigError(f"{key}: {found[one.subject].name} has the same subject")
        found[one.subject] = principal
    if found and not api.tls.client_ca_file:
        raise ConfigError("api.access.certificates: api.tls.client_ca_file is needed, so that they are shown")
    return found


def service_names(api: ApiSettings, advertised: str) -> frozenset[str]:
    """What the service may be called in addresses, in lower case. `advertised`: HOST:PORT."""
    own = socket.gethostname()
    named = [api.host, own, socket.getfqdn(own), *api.access.allowed_hosts]
    named.append(advertised.removeprefix("https://").rpartition(":")[0])
    return frozenset(one.strip("[]").rstrip(".").lower() for one in named if one)
