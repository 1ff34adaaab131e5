"""Idempotency keys of creations (draft-ietf-httpapi-idempotency-key), which make retries safe."""

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
"""A string of RFC 8941, as specified by the draft."""
_BARE: Final = re.compile(r"[\x21\x23-\x2b\x2d-\x3a\x3c-\x5b\x5d-\x7e]+")
"""Same without quotes, as sent by many clients."""
_ESCAPE: Final = re.compile(r"\\(.)")


async def _key_given(
    request: Request,
    _: Annotated[
        str | None,
        Header(
            alias=_HEADER,
            description="unique text chosen by the caller, for example a UUID. A repeated request of the same"
            " principal with the same key and body is the same creation and returns the stored datastream",
        ),
    ] = None,
) -> str | None:
    """Return the key of the request, if any. Raises InvalidRequest for a malformed key."""
    given = request.headers.getlist(_HEADER)
    return _key_of(given) if given else None


IdempotencyKey = Annotated[str | None, Depends(_key_given)]


def _key_of(given: list[str]) -> str:
    text = given[0].strip(" \t")
    found = _STRING.fullmatch(text) or _BARE.fullmatch(text)
    key = _ESCAPE.sub(r"\1", found[1]) if found and found.re is _STRING else text
    if len(given) > 1 or not found or len(key) > _LONGEST:
        raise InvalidRequest(
            f"invalid header {_HEADER} {shown(', '.join(given))}",
            advice=f'send one quoted key of 1 to {_LONGEST} printable ASCII characters: "8e03978e-40d5-43dd"',
        )
    return key


def creation_named(key: str | None, body: DatastreamBody, principal: str) -> Creation | None:
    """Return the idempotency record of a creation by this principal. Fields with default values count as
    omitted."""
    if key is None:
        return None
    return creation_of(_HEADER, key, body.model_dump(mode="json", exclude_defaults=True), principal)
