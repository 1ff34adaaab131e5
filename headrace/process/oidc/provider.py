"""Builds the token issuer from the settings."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Final

import httpx

from api.access.listener_settings import OidcSettings
from api.access.tokens import principal_named
from headrace.process.oidc.keys import IssuerKeys
from headrace.process.oidc.tokens import Issuer, TokenRequirements
from mirror.errors import Unreachable
from mirror.ports import Clock
from mirror.tls import trusting

_LARGEST: Final = 1_000_000
_PLAIN: Final = {"Accept-Encoding": "identity"}


def issuer_of(oidc: OidcSettings, clock: Clock) -> Issuer:
    """Build the token issuer and read its keys within `deadline_seconds`. Raises ConfigError.

    If the keys cannot be read, later requests trigger another attempt.
    """
    read = Path(oidc.keys_file).read_bytes if oidc.keys_file else _reader(oidc)
    keys = IssuerKeys(read, clock, oidc.keys_seconds)
    keys.refresh()
    trust = TokenRequirements(
        issuer=oidc.issuer,
        audience=oidc.audience,
        leeway_seconds=oidc.leeway_seconds,
        name_claim=oidc.name_claim,
        groups_claim=oidc.groups_claim,
        prefix=oidc.name_prefix,
        roles={
            group: principal_named("group", granted.role, granted.owners)
            for group, granted in oidc.groups.items()
        },
    )
    return Issuer(trust, keys, clock)


def _reader(oidc: OidcSettings) -> Callable[[], bytes]:
    """Return a function that fetches the key set of the issuer. Raises ConfigError."""
    context = trusting(oidc.keys_ca_file, "api.access.oidc.keys_ca_file")
    return lambda: asyncio.run(_fetched(oidc.keys_url, oidc.deadline_seconds, context))


async def _fetched(url: str, seconds: float, context: ssl.SSLContext) -> bytes:
    """Fetch the content of a URL, without following redirects. Raises Unreachable."""
    try:
        async with asyncio.timeout(seconds):
            return await _body(url, context)
    except TimeoutError as error:
        raise Unreachable(f"cannot read {url} within {seconds:g} seconds") from error
    except httpx.HTTPError as error:
        raise Unreachable(f"cannot read {url}: {error or type(error).__name__}") from error


async def _body(url: str, context: ssl.SSLContext) -> bytes:
    """Read the body of an HTTP response up to a limit. Raises Unreachable, httpx.HTTPError."""
    body = b""
    async with (
        httpx.AsyncClient(verify=context, timeout=None, headers=_PLAIN, trust_env=False) as client,  # noqa: S113
        client.stream("GET", url) as answer,
    ):
        if answer.status_code != httpx.codes.OK:
            raise Unreachable(f"{url} returned status {answer.status_code}")
        if "Content-Encoding" in answer.headers:
            raise Unreachable(f"{url} returned a compressed response")
        async for part in answer.aiter_bytes():
            body += part
            if len(body) > _LARGEST:
                raise Unreachable(f"{url} returned more than {_LARGEST} bytes")
    return body
