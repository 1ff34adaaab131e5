"""Callers by tokens that somebody else has issued: JSON Web Tokens, as OpenID Connect providers sign them.

A token counts where its issuer and its audience are those of the settings, a key of the issuer has signed it
with the one algorithm that the key is for, and its time has come and is not over. What it may do the settings
say, by the groups that it names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import jwt

from api.access.rights import Principal, Role
from headrace.process.oidc.keys import IssuerKeys, PublicKey
from mirror.errors import InvalidRequest, NotAuthenticated
from mirror.model import bounds
from mirror.ports import Clock

_LONGEST: Final = 16_384
_MOST_GROUPS: Final = 1_000
_LAST_SECOND: Final = 2**53
"""Times beyond it are no floats that can be computed with; NaN and infinities are not below it either."""
_TYPES: Final = frozenset({"JWT", "AT+JWT", "APPLICATION/AT+JWT"})
_RANK: Final = {role: rank for rank, role in enumerate(Role)}
_REFUSED: Final = "this token is not one of the issuer for this service"


@dataclass(frozen=True, slots=True)
class Trust:
    """What a token has to be. `roles`: by group; `prefix`: before names, so that they are no token's here."""

    issuer: str
    audience: str
    leeway_seconds: float
    name_claim: str
    groups_claim: str
    prefix: str
    roles: Mapping[str, Principal]


class Issuer:
    """For any thread. Satisfies `api.access.gate.TokenIssuer`."""

    def __init__(self, trust: Trust, keys: IssuerKeys, clock: Clock) -> None:
        self._trust = trust
        self._keys = keys
        self._clock = clock

    def principal_of(self, token: str) -> Principal:
        """Raises NotAuthenticated; Unreachable where the issuer's keys are not known."""
        key = self._keys.key(_name_of_key(token))
        if key is None:
            raise NotAuthenticated(_REFUSED)
        claims = _claims(token, key, self._trust)
        _check_times(claims, self._clock.now_ms() / 1_000, self._trust.leeway_seconds)
        return principal_from(claims, self._trust)


def _name_of_key(token: str) -> str:
    """Out of the header, which nobody has verified yet. Raises NotAuthenticated."""
    try:
        header = jwt.get_unverified_header(token[: _LONGEST + 1])
    except (jwt.PyJWTError, ValueError, RecursionError) as error:
        raise NotAuthenticated(_REFUSED) from error
    kind, name = header.get("typ", "JWT"), header.get("kid")
    is_known = isinstance(kind, str) and kind.upper() in _TYPES and "crit" not in header
    if len(token) > _LONGEST or not is_known or not isinstance(name, str):
        raise NotAuthenticated(_REFUSED)
    return name


def _claims(token: str, key: PublicKey, trust: Trust) -> dict[str, Any]:
    """Of a token that the issuer has signed for this service; its times are not looked at yet: PyJWT has
    another clock. Raises NotAuthenticated."""
    try:
        found: dict[str, Any] = jwt.decode(
            token,
            key.key,
            algorithms=[key.algorithm],  # whatever the header says
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
    """By the clock of this machine, which may differ by `leeway`. Raises NotAuthenticated."""
    for claim in ("exp", "nbf", "iat"):
        value = claims.get(claim)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if value is not None and not (is_number and -_LAST_SECOND <= value <= _LAST_SECOND):
            raise NotAuthenticated(_REFUSED)
    if claims["exp"] is None or claims["exp"] + leeway <= now:
        raise NotAuthenticated("this token has expired", advice="sign in again")
    if max(claims.get("nbf") or 0, claims.get("iat") or 0) - leeway > now:
        raise NotAuthenticated("this token is of the future", advice="compare the clocks")


def principal_from(claims: Mapping[str, Any], trust: Trust) -> Principal:
    """The highest role of its groups, with the owners of all groups of that role. Raises NotAuthenticated.
    Pure."""
    try:
        name = bounds.line("the name", claims.get(trust.name_claim))
        given = claims.get(trust.groups_claim, [])
        groups = bounds.sequence("groups", [given] if isinstance(given, str) else given, _MOST_GROUPS)
    except InvalidRequest as error:
        raise NotAuthenticated("this token names nobody who can be shown") from error
    known = [trust.roles[one] for one in groups if isinstance(one, str) and one in trust.roles]
    if not known:
        raise NotAuthenticated(f"{trust.prefix}{name} is in no group that has a role here")
    role = max((one.role for one in known), key=_RANK.__getitem__)
    owners = frozenset[str]().union(*(one.owners for one in known if one.role is role))
    return Principal(f"{trust.prefix}{name}", role, owners)
