"""A protocol request together with the decoder of its response."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from mirror.errors import CorruptData, Refused
from mirror.protocol.frame import View

CONTROL_BYTES: Final = 4 * 1024 * 1024
"""Default limit on the size of a response."""
MANY_BYTES: Final = 32 * 1024 * 1024
"""Limit on the size of a response that lists groups, rights, or partitions of a large cluster."""

T_co = TypeVar("T_co", covariant=True)
Fields = dict[str, Any]
"""Values of a structure by kafka-python's field names. Nested structures are dictionaries, too."""

_DAMAGES: Final = (
    struct.error,
    LookupError,
    ValueError,
    TypeError,
    AttributeError,
    OverflowError,
    AssertionError,
)
"""Exceptions that kafka-python's decoders raise for malformed bytes."""


@dataclass(frozen=True, slots=True)
class Call(Generic[T_co]):
    """A request, and the decoder of its response.

    `request`, `response`: classes of kafka-python. `versions`: lowest and highest supported version.
    `fields`: fields of the request, or a function that returns them for a version. `read` converts the
    response into a value. `most_bytes`: maximum size of a response.
    """

    request: Any
    response: Any
    versions: tuple[int, int]
    fields: Fields | Callable[[int], Fields]
    read: Callable[[Any], T_co]
    most_bytes: int = CONTROL_BYTES

    @property
    def api(self) -> int:
        """Kafka's API key."""
        return int(self.request.API_KEY)

    @property
    def name(self) -> str:
        """Kafka's name of the request, without the suffix "Request"."""
        return str(self.request.name).removesuffix("Request")

    def choose(self, offered: tuple[int, int] | None) -> int:
        """Return the highest version that client and broker support. Raises Refused if there is none."""
        lowest, highest = self.versions
        version = -1 if offered is None else min(highest, offered[1])
        if offered is None or version < max(lowest, offered[0]):
            raise Refused(
                f"no common version of {self.name}: broker {offered or 'none'}, client {self.versions}",
                advice="Headrace requires brokers of Kafka 0.11 or later",
            )
        return version

    def is_flexible(self, version: int) -> bool:
        """Return whether the request header of that version is flexible."""
        return bool(self.request.flexible_version_q(version))

    def message(self, version: int) -> Any:
        """Return the request as an object of kafka-python."""
        fields = self.fields if isinstance(self.fields, dict) else self.fields(version)
        return _structure(self.request, fields, version)

    def encode(self, version: int) -> bytes:
        """Return the encoded body of the request."""
        return bytes(self.message(version).encode(header=False, framed=False))

    def decode(self, version: int, body: View) -> tuple[T_co, int]:
        """Return the decoded response, and the ms to wait before the next request. Raises CorruptData."""
        try:
            response = self.response.decode(body, version=version)
            return self.read(response), int(getattr(response, "throttle_time_ms", 0) or 0)
        except _DAMAGES as error:
            raise CorruptData(f"cannot decode the {self.name} response: {error}") from error


def _structure(kind: Any, fields: Fields, version: int) -> Any:
    """Convert fields to the object that kafka-python uses for this structure of the message."""
    values = fields.copy()
    for name, value in fields.items():
        if isinstance(value, dict):
            values[name] = _structure(kind.fields[name].data_class, value, version)
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            inner = kind.fields[name].data_class
            values[name] = [_structure(inner, item, version) for item in value]
    return kind(**values, version=version)
