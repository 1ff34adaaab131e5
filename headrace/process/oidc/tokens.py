"""Validates JSON Web Tokens of an OpenID Connect provider.

A token must have the issuer and audience in the settings, and a signature with a key of the issuer and the
algorithm of this key. A token must not be expired, and its validity must have begun. The settings assign
roles to the groups in a token.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import jwt

from api.access.rights import RANK, Principal
from headrace.process.oidc.keys import IssuerKeys, PublicKey
from mirror.errors import InvalidRequest, NotAuthenticated
from mirror.model import bounds
from mirror.ports import Clock

_LONGEST: Final = 16_384
_MOST_GROUPS: Final = 1_000
_LAST_SECOND: Final = 2**53
"""Maximum of time claims in a token, because floats lose precision above it."""
_TYPES: Final = frozenset({"JWT", "AT+JWT", "APPLICATION/AT+JWT"})
_REFUSED: Final = "invalid token: not issued by the configured issuer for this service"


@dataclass(frozen=True, slots=True)
class TokenRequirements:
    """Issuer, audience and claims that a token must have to be accepted.

    `roles`: principal by group. `prefix`: prefix of the names of principals, which distinguishes them from
    principals with tokens of the service.
    """

    issuer: str
    audience: str
    leeway_seconds: float
    name_claim: str
    groups_claim: str
    prefix: str
    roles: Mapping[str, Principal]


class Issuer:
    """A trusted token issuer. Thread-safe. Implements `api.access.gate.TokenIssuer`."""

    def __init__(self, trust: TokenRequirements, keys: IssuerKeys, clock: Clock) -> None:
        self._trust = trust
        self._keys = keys
        self._clock = clock

    def principal_of(self, token: str) -> Principal:
        """Return the principal of a token. Raises NotAuthenticated; Unreachable if issuer keys are
        unavailable."""
        key = self._keys.key(_name_of_key(token))
        if key is None:
            raise NotAuthenticated(_REFUSED)
        claims = _claims(token, key, self._trust)
        _check_times(claims, self._clock.now_ms() / 1_000, self._trust.leeway_seconds)
        return principal_from(claims, self._trust)


def _name_of_key(token: str) -> str:
    """Return the key id in the unverified header of a token. Raises NotAuthenticated."""
    try:
        header = jwt.get_unverified_header(token[: _LONGEST + 1])
    except (jwt.PyJWTError, ValueError, RecursionError) as error:
        raise NotAuthenticated(_REFUSED) from error
    kind, name = header.get("typ", "JWT"), header.get("kid")
    is_known = isinstance(kind, str) and kind.upper() in _TYPES and "crit" not in header
    if len(token) > _LONGEST or not is_known or not isinstance(name, str):
        raise NotAuthenticated(_REFUSED)
    return name


def _claims(token: str, key: PublicKey, trust: TokenRequirements) -> dict[str, Any]:
    """Verify a token's signature, issuer and audience, and return its claims. Raises NotAuthenticated.

    Times are checked separately, because PyJWT does not use the clock of the service.
    """
    try:
        found: dict[str, Any] = jwt.decode(
            token,
            key.key,
            algorithms=[key.algorithm],  # never the one in the header
            audience=trust.audience,
            issuer=trust.issuer,
            options={
                "require": ["exp", "iss", "aud", trust.name_claim],
                "verify_exp": False,
                "verify_nbf": False,
                "verify_iat": False,
            },
        )
    except (jwt.PyJWTError, ValueError, TypeError, RecursionError) as error:
        raise NotAuthenticated(_REFUSED) from error
    return found


def _check_times(claims: Mapping[str, Any], now: float, leeway: float) -> None:
    """Check that a token has not expired and is already valid. Raises NotAuthenticated.

    `now`: seconds since the epoch. `leeway`: tolerance in seconds.
    """
    for claim in ("exp", "nbf", "iat"):
        value = claims.get(claim)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if value is not None and not (is_number and -_LAST_SECOND <= value <= _LAST_SECOND):
            raise NotAuthenticated(_REFUSED)
    if claims["exp"] is None or claims["exp"] + leeway <= now:
        raise NotAuthenticated("token has expired", advice="sign in again")
    if max(claims.get("nbf") or 0, claims.get("iat") or 0) - leeway > now:
        raise NotAuthenticated("token is not valid yet", advice="check the clocks")


def principal_from(claims: Mapping[str, Any], trust: TokenRequirements) -> Principal:
    """Return the principal that the claims of a token describe. Raises NotAuthenticated. Pure.

    The principal gets the highest role of its groups, and the owners of all groups with this role.
    """
    try:
        name = bounds.line("the name", claims.get(trust.name_claim))
        given = claims.get(trust.groups_claim, [])
        groups = bounds.sequence("groups", [given] if isinstance(given, str) else given, _MOST_GROUPS)
    except InvalidRequest as error:
        raise NotAuthenticated("invalid name or groups in the token") from error
    known = [trust.roles[group] for group in groups if isinstance(group, str) and group in trust.roles]
    if not known:
        raise NotAuthenticated(f"no group of {trust.prefix}{name} has a role in this service")
    role = max((principal.role for principal in known), key=RANK.__getitem__)
    owners = frozenset[str]().union(*(principal.owners for principal in known if principal.role is role))
    return Principal(f"{trust.prefix}{name}", role, owners)
