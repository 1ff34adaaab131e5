"""Framing of Kafka messages: size, header, and the field types common to all messages.

Requests identify a topic by its name or, in newer versions, by its 16-byte id. `TopicKey` is the name or the
id, as bytes, depending on the version of the request.

Variable-length integers are unsigned in flexible messages, and signed (zigzag) in records. They have seven
bits per byte, least significant group first; the top bit marks continuation, as in Protocol Buffers.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final

from mirror.errors import CorruptData

TopicKey = bytes
"""A topic's name in UTF-8, or its id."""

View = memoryview

Nodes = Mapping[int, tuple[str, int]]
"""Host and port by broker id."""

NO_TAGS: Final = b"\x00"
SIZE_BYTES: Final = 4
_ID_SIZE: Final = 16
LARGEST_FRAME: Final = 2**30
"""Maximum frame size. A size above this limit means corruption, or that the port uses another protocol."""

_LONGEST_VARINT: Final = 10
"""Maximum size in bytes of a 64-bit varint."""

_HEADER: Final = struct.Struct(">ihhi")
_SHORT: Final = struct.Struct(">h")
_INT: Final = struct.Struct(">i")


def request_head(
    api: int, version: int, correlation: int, client: bytes, body_size: int, *, flexible: bool
) -> bytes:
    """Return the size field and request header (version 2 if flexible, else 1) for a body of that size."""
    client_field = _SHORT.pack(len(client)) + client + (NO_TAGS if flexible else b"")
    size = _HEADER.size - SIZE_BYTES + len(client_field) + body_size
    return _HEADER.pack(size, api, version, correlation) + client_field


def response_body(frame: View, *, flexible: bool) -> View:
    """Return the body after the response header (version 1 if flexible, else 0). Raises CorruptData."""
    if not flexible:
        return frame[4:]
    position = skip_tags(frame, 4)
    return frame[position:]


def frame_size(head: bytes | bytearray | View, sender: str) -> int:
    """Return the bytes that follow the size field of a frame. Raises CorruptData for an invalid size."""
    (size,) = _INT.unpack_from(head)
    if not 4 <= size <= LARGEST_FRAME:
        raise CorruptData(
            f"{sender} did not send a Kafka frame",  # without the size, which is four bytes of server data
            advice="check that the port is a Kafka listener with this security protocol",
        )
    return int(size)


def correlation_of(frame: View) -> int:
    """Return the correlation id of a response frame."""
    (correlation,) = _INT.unpack_from(frame)
    return int(correlation)


def write_string(text: bytes | None, *, flexible: bool) -> bytes:
    """Return the encoding of a nullable string."""
    if flexible:
        return b"\x00" if text is None else encode_unsigned(len(text) + 1) + text
    return b"\xff\xff" if text is None else _SHORT.pack(len(text)) + text


def write_topic(topic: TopicKey, *, by_id: bool, flexible: bool) -> bytes:
    """Return the encoding of a topic: its raw id, or its name as a string."""
    return topic if by_id else write_string(topic, flexible=flexible)


def write_count(count: int, *, flexible: bool) -> bytes:
    """Return the encoding of an array length."""
    return encode_unsigned(count + 1) if flexible else _INT.pack(count)


def read_count(data: View, position: int, *, flexible: bool) -> tuple[int, int]:
    """Return an array length, and the position after it; the length of a null array is 0.

    Raises CorruptData if `data` is too short for that many elements.
    """
    if flexible:
        count, position = decode_unsigned(data, position)
        count -= 1
    else:
        (count,) = _INT.unpack_from(data, position)
        position += 4
    if count > len(data) - position:
        raise CorruptData(f"an array of {count} elements exceeds the remaining {len(data) - position} bytes")
    return max(count, 0), position


def read_bytes(data: View, position: int, *, flexible: bool, wide: bool = False) -> tuple[View | None, int]:
    """Read a nullable string or bytes, and return it with the position after it. `wide`: the length has four
    bytes in versions that are not flexible.

    Raises CorruptData if the field exceeds `data`.
    """
    if flexible:
        length, position = decode_unsigned(data, position)
        length -= 1
    elif wide:
        (length,) = _INT.unpack_from(data, position)
        position += 4
    else:
        (length,) = _SHORT.unpack_from(data, position)
        position += 2
    if length < 0:
        return None, position
    end = position + length
    if end > len(data):
        raise CorruptData(f"a field of {length} bytes exceeds the remaining {len(data) - position} bytes")
    return data[position:end], end


def read_topic(data: View, position: int, *, by_id: bool, flexible: bool) -> tuple[TopicKey, int]:
    """Read a topic id or name, and return it with the position after it. Raises CorruptData if truncated."""
    if by_id:
        return bytes(data[position : position + _ID_SIZE]), position + _ID_SIZE
    name, position = read_bytes(data, position, flexible=flexible)
    return bytes(name or b""), position


def skip_tags(data: View, position: int) -> int:
    """Return the position after a tag buffer, ignoring its contents. Raises CorruptData."""
    count, position = decode_unsigned(data, position)
    for _ in range(count):
        _, position = decode_unsigned(data, position)
        size, position = decode_unsigned(data, position)
        position += size
        if position > len(data):
            raise CorruptData("a message ends inside a tagged field")
    return position


def read_nodes(data: View) -> Nodes:
    """Map broker ids to the addresses of leaders in a Fetch or Produce response (KIP-951).

    Raises CorruptData, struct.error or UnicodeDecodeError if `data` is truncated or not UTF-8.
    """
    nodes: dict[int, tuple[str, int]] = {}
    count, position = read_count(data, 0, flexible=True)
    for _ in range(count):
        (node,) = _INT.unpack_from(data, position)
        host, position = read_bytes(data, position + 4, flexible=True)
        (port,) = _INT.unpack_from(data, position)
        _rack, position = read_bytes(data, position + 4, flexible=True)
        position = skip_tags(data, position)
        nodes[node] = (str(host or b"", "utf-8"), port)
    return nodes


def read_tags(data: View, position: int) -> tuple[dict[int, View], int]:
    """Read tagged fields. Return a mapping of tag to field, and the position after it. Raises CorruptData."""
    count, position = decode_unsigned(data, position)
    fields: dict[int, View] = {}
    for _ in range(count):
        tag, position = decode_unsigned(data, position)
        size, position = decode_unsigned(data, position)
        end = position + size
        if end > len(data):
            raise CorruptData("a message ends inside a tagged field")
        fields[tag] = data[position:end]
        position = end
    return fields, position


def encode_signed(number: int) -> bytes:
    """Return the zigzag varint of a signed 64-bit number."""
    return encode_unsigned((number << 1) ^ (number >> 63))


def encode_unsigned(number: int) -> bytes:
    """Return the varint of a non-negative number."""
    if number < 1 << 7:
        return bytes((number,))
    if number < 1 << 14:
        return bytes((number & 0x7F | 0x80, number >> 7))
    if number < 1 << 21:
        return bytes((number & 0x7F | 0x80, number >> 7 & 0x7F | 0x80, number >> 14))
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def decode_signed(data: bytes | bytearray | memoryview, position: int) -> tuple[int, int]:
    """Read a signed number, and return it with the position after it. Raises CorruptData if truncated."""
    number, position = decode_unsigned(data, position)
    return (number >> 1) ^ -(number & 1), position


def decode_unsigned(data: bytes | bytearray | memoryview, position: int) -> tuple[int, int]:
    """Read a number, and return it with the position after it. Raises CorruptData if truncated."""
    number = shift = 0
    try:
        while True:
            byte = data[position]
            position += 1
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number, position
            shift += 7
            if shift >= _LONGEST_VARINT * 7:
                raise CorruptData("a varint has more than 10 bytes")
    except IndexError:
        raise CorruptData("a message ends inside a varint") from None


SMALL_LIMIT: Final = 8192
SMALL: Final = tuple(encode_signed(number) for number in range(SMALL_LIMIT))
"""Precomputed zigzag varints of the common numbers 0 to 8191 (one or two bytes)."""
