"""A minimal Thrift client for Hive Metastores: calls in the binary protocol, bounded in time and size.

It replaces the `thrift` package: a Lambda function needs no further dependency, and a slowly sending server is cut
off in time.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import IntEnum
from typing import Any

_TIMEOUT_SECONDS = 10.0
_MAX_BYTES = 64 << 20
_MAX_DEPTH = 32
_CHUNK_BYTES = 1 << 16
_STRICT = 0x8001 << 16  # version 1, in the upper half of a message's first word
_CALL, _REPLY, _EXCEPTION = 1, 2, 3
_UNKNOWN_METHOD = 1  # the type of an application exception


class _Type(IntEnum):
    """Types of values in the binary protocol."""

    STOP = 0
    BOOL = 2
    BYTE = 3
    DOUBLE = 4
    I16 = 6
    I32 = 8
    I64 = 10
    STRING = 11
    STRUCT = 12
    MAP = 13
    SET = 14
    LIST = 15


_NUMBER_LAYOUTS: Mapping[int, str] = {
    _Type.BOOL: ">?",
    _Type.BYTE: ">b",
    _Type.DOUBLE: ">d",
    _Type.I16: ">h",
    _Type.I32: ">i",
    _Type.I64: ">q",
}

ThriftArgument = str | int | Sequence[str] | Sequence[int] | Mapping[int, "ThriftArgument"]
"""An argument: text, an i32, a list of either, or a struct by field number."""

Fields = dict[int, Any]  # a received struct; its fields have any type


class ThriftError(Exception):
    """No response, or an unreadable one."""


class UnknownMethod(Exception):
    """The server does not have the method: it is older or newer."""


class CallFailed(Exception):
    """The server reports an error. `field_id`: of the method's declared exception; 0 for an undeclared one."""

    def __init__(self, field_id: int, message: str) -> None:
        super().__init__(message)
        self.field_id = field_id


class Connection:
    """An open connection; it serves one call at a time."""

    def __init__(self, stream: socket.socket) -> None:
        self._stream = stream

    def call(self, method: str, arguments: Mapping[int, ThriftArgument]) -> object:
        """Call a method and return its result."""
        name = method.encode()
        header = struct.pack(">II", _STRICT | _CALL, len(name)) + name + struct.pack(">i", 0)
        deadline = time.monotonic() + _TIMEOUT_SECONDS
        try:
            self._stream.settimeout(_TIMEOUT_SECONDS)
            self._stream.sendall(header + _encode(arguments))
            message_type, response = _ThriftReader(self._stream, deadline).read_message()
        except TimeoutError:
            raise ThriftError(f"no complete response within {_TIMEOUT_SECONDS:.0f} s") from None
        except OSError as error:
            raise ThriftError(str(error) or type(error).__name__) from None
        if message_type == _EXCEPTION and response.get(2) == _UNKNOWN_METHOD:
            raise UnknownMethod(method)
        if message_type != _REPLY:
            raise CallFailed(0, _first_line(response.get(1)))
        for field_id, value in response.items():
            if field_id:
                raise CallFailed(field_id, _first_line(value.get(1) if isinstance(value, dict) else None))
        return response.get(0)


@contextmanager
def open_connection(host: str, port: int) -> Iterator[Connection]:
    """Open a connection that is closed after the block."""
    try:
        stream = socket.create_connection((host, port), _TIMEOUT_SECONDS)
    except OSError as error:
        raise ThriftError(str(error) or type(error).__name__) from None
    with stream:
        yield Connection(stream)


def _first_line(text: object) -> str:
    """Return the first line of a server's message, shortened."""
    return str(text or "no reason given").strip().partition("\n")[0][:300]


def _encode(fields: Mapping[int, ThriftArgument]) -> bytes:
    parts: list[bytes] = []
    for field_id, value in fields.items():
        value_type, data = _encode_value(value)
        parts += [struct.pack(">bh", value_type, field_id), data]
    return b"".join([*parts, bytes([_Type.STOP])])


def _encode_value(value: ThriftArgument) -> tuple[int, bytes]:
    if isinstance(value, str):
        data = value.encode()
        return _Type.STRING, struct.pack(">i", len(data)) + data
    if isinstance(value, int):
        return _Type.I32, struct.pack(">i", value)
    if isinstance(value, Mapping):
        return _Type.STRUCT, _encode(value)
    encoded = [_encode_value(item) for item in value]
    item_type = encoded[0][0] if encoded else _Type.STRING
    return _Type.LIST, struct.pack(">bi", item_type, len(encoded)) + b"".join(data for _, data in encoded)


class _ThriftReader:
    """Reads one message, up to a deadline and a size."""

    def __init__(self, stream: socket.socket, deadline: float) -> None:
        self._stream = stream
        self._deadline = deadline
        self._buffer = bytearray()
        self._position = 0
        self._discarded = 0
        self._readers: dict[int, Callable[[int], object]] = {
            _Type.STRING: self._read_text,
            _Type.STRUCT: self._read_struct,
            _Type.MAP: self._read_map,
            _Type.SET: self._read_list,
            _Type.LIST: self._read_list,
        }

    def read_message(self) -> tuple[int, Fields]:
        """Return the type of the message, and its struct."""
        first_word = self._read_number(">I")
        if first_word & 0xFFFF0000 != _STRICT:
            raise ThriftError("the server does not use Thrift's binary protocol")
        self._read_text(0)
        self._read_number(">i")
        return first_word & 0xFF, self._read_struct(0)

    def _read_bytes(self, size: int) -> bytes:
        if size < 0 or self._discarded + self._position + size > _MAX_BYTES:
            raise ThriftError(f"the response is larger than {_MAX_BYTES >> 20} MB or not Thrift")
        while len(self._buffer) - self._position < size:
            if self._position > _CHUNK_BYTES:
                del self._buffer[: self._position]
                self._discarded, self._position = self._discarded + self._position, 0
            remaining_seconds = self._deadline - time.monotonic()
            if remaining_seconds <= 0:
                raise TimeoutError
            self._stream.settimeout(remaining_seconds)
            chunk = self._stream.recv(_CHUNK_BYTES)
            if not chunk:
                raise ThriftError("the connection was closed")
            self._buffer += chunk
        content = bytes(self._buffer[self._position : self._position + size])
        self._position += size
        return content

    def _read_number(self, layout: str) -> Any:  # noqa: ANN401 (depends on the layout)
        return struct.unpack(layout, self._read_bytes(struct.calcsize(layout)))[0]

    def _read_value(self, value_type: int, depth: int) -> object:
        if value_type in _NUMBER_LAYOUTS:
            return self._read_number(_NUMBER_LAYOUTS[value_type])
        if value_type not in self._readers or depth >= _MAX_DEPTH:
            raise ThriftError(f"the response cannot be read: type {value_type} at depth {depth}")
        return self._readers[value_type](depth + 1)

    def _read_text(self, _: int) -> str:
        return self._read_bytes(self._read_number(">i")).decode(errors="replace")

    def _read_struct(self, depth: int) -> Fields:
        fields: Fields = {}
        while value_type := self._read_number(">b"):
            field_id = self._read_number(">h")
            fields[field_id] = self._read_value(value_type, depth)
        return fields

    def _read_list(self, depth: int) -> list[object]:
        item_type, size = self._read_number(">b"), self._read_number(">i")
        return [self._read_value(item_type, depth) for _ in range(size)]

    def _read_map(self, depth: int) -> dict[object, object]:
        key_type, value_type = self._read_number(">b"), self._read_number(">b")
        size = self._read_number(">i")
        return {
            _hashable(self._read_value(key_type, depth)): self._read_value(value_type, depth)
            for _ in range(size)
        }


def _hashable(value: object) -> object:
    """Return a map's key. Some maps have lists as keys (a skewed table's locations); a dict needs them as text."""
    return value if isinstance(value, Hashable) else str(value)
