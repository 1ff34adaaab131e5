"""A request of the protocol with the way to read its answer."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from mirror.errors import CorruptData, Refused
from mirror.protocol.frame import View

_API_VERSIONS: Final = 18
CONTROL_BYTES: Final = 4 * 1024 * 1024
"""Largest response to a request that says nothing else."""

T_co = TypeVar("T_co", covariant=True)

_DAMAGES: Final = (
    struct.error,
    LookupError,
    ValueError,
    TypeError,
    AttributeError,
    OverflowError,
    AssertionError,
)
"""What the library's decoders raise for bytes that are no message."""


@dataclass(frozen=True, slots=True)
class Call(Generic[T_co]):
    """`build` makes the library's request in a version, `read` turns its response into a value.

    `versions`: the lowest and highest that we speak. `most_bytes`: size of the largest response.
    """

    request: Any
    response: Any
    versions: tuple[int, int]
    build: Callable[[int], Any]
    read: Callable[[Any], T_co]
    most_bytes: int = CONTROL_BYTES

    @property
    def api(self) -> int:
        """The api key."""
        return int(self.request.API_KEY)

    @property
    def name(self) -> str:
        """As Kafka calls it."""
        return str(self.request.name).removesuffix("Request")

    def choose(self, offered: tuple[int, int] | None) -> int:
        """The newest version that both sides speak. Raises Refused when there is none."""
        lowest, highest = self.versions
        version = -1 if offered is None else min(highest, offered[1])
        if offered is None or version < max(lowest, offered[0]):
            raise Refused(
                f"the broker speaks {self.name} {offered or 'not at all'}, we {self.versions}",
                advice="Kafka 0.11 is the oldest that can be mirrored",
            )
        return version

    def is_flexible(self, version: int) -> bool:
        """Whether the request's header is flexible in that version."""
        return bool(self.request.flexible_version_q(version))

    def has_flexible_answer(self, version: int) -> bool:
        """Whether the response header is flexible; that of ApiVersions never is."""
        return self.api != _API_VERSIONS and self.is_flexible(version)

    def encode(self, version: int) -> bytes:
        """The body of the request."""
        message = self.build(version)
        message.API_VERSION = version
        return bytes(message.encode(header=False, framed=False))

    def decode(self, version: int, body: View) -> tuple[T_co, int]:
        """(the answer, milliseconds to wait before the next request). Raises CorruptData."""
        try:
            response = self.response.decode(body, version=version)
            return self.read(response), int(getattr(response, "throttle_time_ms", 0) or 0)
        except _DAMAGES as error:
            raise CorruptData(f"a {self.name} response cannot be read: {error}") from error
