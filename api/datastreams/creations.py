"""Keys that callers give creations (draft-ietf-httpapi-idempotency-key), so that one may be sent again."""

from __future__ import annotations

import re
from typing import Annotated, Final

from fastapi import Depends, Header, Request

from api.schemas.datastreams import DatastreamBody
from mirror.errors import InvalidRequest
from mirror.model.bounds import shown
from mirror.model.datastreams.creation import Creation, creation_of

_HEADER: Final = "Idempotency-Key"
_LONGEST: Final = 255
_STRING: Final = re.compile(r'"((?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])+)"')
"""A string of RFC 8941, as the draft has it."""
_BARE: Final = re.compile(r"[\x21\x23-\x2b\x2d-\x3a\x3c-\x5b\x5d-\x7e]+")
"""The same without quotes, as many clients send it."""
_ESCAPE: Final = re.compile(r"\\(.)")


async def _key_given(
    request: Request,
    _: Annotated[
        str | None,
        Header(
            alias=_HEADER,
            description="a text of the caller's own, for example a UUID, that no other creation has: sent"
            " again with the same body by the same principal, it is the same creation, and is answered with"
            " what is stored",
        ),
    ] = None,
) -> str | None:
    """Raises InvalidRequest for what is no key."""
    given = request.headers.getlist(_HEADER)
    return _key_of(given) if given else None


IdempotencyKey = Annotated[str | None, Depends(_key_given)]


def _key_of(given: list[str]) -> str:
    text = given[0].strip(" \t")
    found = _STRING.fullmatch(text) or _BARE.fullmatch(text)
    key = _ESCAPE.sub(r"\1", found[1]) if found and found.re is _STRING else text
    if len(given) > 1 or not found or len(key) > _LONGEST:
        raise InvalidRequest(
            f"the header {_HEADER} {shown(', '.join(given))} is no key",
            advice=f'send one, of 1 to {_LONGEST} printable ASCII characters in quotes: "8e03978e-40d5-43dd"',
        )
    return key


def creation_named(key: str | None, body: DatastreamBody, principal: str) -> Creation | None:
    """What is stored with a datastream that this principal created with this key. Fields that have their
    defaults count as left out."""
    if key is None:
        return None
    return creation_of(_HEADER, key, body.model_dump(mode="json", exclude_defaults=True), principal)
