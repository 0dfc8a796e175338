"""Protocol-buffer messages without their schema: field numbers and raw values, as the wire format has them.

References:
    Protocol Buffers documentation, Encoding. https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

Value = int | memoryview
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
LARGEST = 2**30
"""Bytes of one message."""


class WireError(ValueError):
    """Bytes that are no message."""


def varint(data: memoryview, at: int) -> tuple[int, int]:
    """A whole number of variable length, and where it ends."""
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value & (2**64 - 1), at
        shift += 7
    raise WireError


def message(data: memoryview) -> Iterator[tuple[int, Value]]:
    """Fields in order: a number, or the bytes of a text or of an inner message; raises WireError where there is none."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        field, kind = key >> 3, key & 7
        if kind == VARINT:
            number, at = varint(data, at)
            yield field, number
            continue
        size, at = varint(data, at) if kind == BYTES else ({FIXED64: 8, FIXED32: 4}.get(kind, -1), at)
        if not field or size < 0 or at + size > len(data):
            raise WireError
        piece = data[at : at + size]
        yield field, piece if kind == BYTES else int.from_bytes(piece, "little")
        at += size


def delimited(stream: BinaryIO) -> Iterator[memoryview]:
    """Messages in a row, each after its length."""
    while head := stream.read(1):
        while head[-1] >= 0x80 and len(head) < 10:
            head += stream.read(1) or b"\x00"
        size, _ = varint(memoryview(head), 0)
        if size > LARGEST:
            raise WireError
        raw = stream.read(size)
        if len(raw) < size:
            raise WireError
        yield memoryview(raw)


def text(value: Value) -> str:
    """A field as text; raises WireError where it is a number."""
    if isinstance(value, int):
        raise WireError
    return bytes(value).decode("utf-8", "replace")


def inner(value: Value) -> memoryview:
    """A field as the bytes of a message; raises WireError where it is a number."""
    if isinstance(value, int):
        raise WireError
    return value


def number(value: Value) -> int:
    """A field as a signed number; raises WireError where it is bytes."""
    if not isinstance(value, int):
        raise WireError
    return value - 2**64 if value >= 2**63 else value
