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
from typing import Any

_TIMEOUT_SECONDS = 10.0
_MAX_BYTES = 64 << 20
_MAX_DEPTH = 32
_CHUNK_BYTES = 1 << 16
_STRICT = 0x8001 << 16  # version 1, in the upper half of a message's first word
_CALL, _REPLY, _EXCEPTION = 1, 2, 3
_STOP, _BOOL, _BYTE, _DOUBLE, _I16, _I32, _I64, _STRING, _STRUCT, _MAP, _SET, _LIST = (
    *(0, 2, 3, 4, 6, 8, 10),
    *(11, 12, 13, 14, 15),
)
_NUMBERS = {_BOOL: ">?", _BYTE: ">b", _DOUBLE: ">d", _I16: ">h", _I32: ">i", _I64: ">q"}
_UNKNOWN_METHOD = 1

ThriftArgument = str | int | Sequence[str] | Sequence[int] | Mapping[int, "ThriftArgument"]
"""An argument: text, an i32, a list of either, or a struct by field number."""

Fields = dict[int, Any]  # a received struct; its fields have any type


class ThriftError(Exception):
    """No response, or an unreadable one."""


class UnknownMethod(Exception):
    """The server does not have the method: it is older or newer."""


class CallFailed(Exception):
    """The server reports an error. `number`: which of the method's declared exceptions; 0 for an undeclared one."""

    def __init__(self, number: int, message: str) -> None:
        super().__init__(message)
        self.number = number


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
            kind, response = _ThriftReader(self._stream, deadline).message()
        except TimeoutError:
            raise ThriftError(f"no complete response within {_TIMEOUT_SECONDS:.0f} s") from None
        except OSError as error:
            raise ThriftError(str(error) or type(error).__name__) from None
        if kind == _EXCEPTION and response.get(2) == _UNKNOWN_METHOD:
            raise UnknownMethod(method)
        if kind != _REPLY:
            raise CallFailed(0, _first_line(response.get(1)))
        for number, value in response.items():
            if number:
                raise CallFailed(number, _first_line(value.get(1) if isinstance(value, dict) else None))
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
    """The first line of a server's message, shortened."""
    return str(text or "no reason given").strip().partition("\n")[0][:300]


def _encode(fields: Mapping[int, ThriftArgument]) -> bytes:
    parts: list[bytes] = []
    for number, value in fields.items():
        kind, data = _encode_value(value)
        parts += [struct.pack(">bh", kind, number), data]
    return b"".join([*parts, bytes([_STOP])])


def _encode_value(value: ThriftArgument) -> tuple[int, bytes]:
    if isinstance(value, str):
        data = value.encode()
        return _STRING, struct.pack(">i", len(data)) + data
    if isinstance(value, int):
        return _I32, struct.pack(">i", value)
    if isinstance(value, Mapping):
        return _STRUCT, _encode(value)
    encoded = [_encode_value(item) for item in value]
    kind = encoded[0][0] if encoded else _STRING
    return _LIST, struct.pack(">bi", kind, len(encoded)) + b"".join(data for _, data in encoded)


class _ThriftReader:
    """Reads one message, up to a deadline and a size."""

    def __init__(self, stream: socket.socket, deadline: float) -> None:
        self._stream = stream
        self._deadline = deadline
        self._buffer = bytearray()
        self._at = 0
        self._discarded = 0
        self._readers: dict[int, Callable[[int], object]] = {
            _STRING: self._text,
            _STRUCT: self._fields,
            _MAP: self._map,
            _SET: self._list,
            _LIST: self._list,
        }

    def message(self) -> tuple[int, Fields]:
        """Read the message: its kind, and its struct."""
        first = self._number(">I")
        if first & 0xFFFF0000 != _STRICT:
            raise ThriftError("the server does not use Thrift's binary protocol")
        self._text(0)
        self._number(">i")
        return first & 0xFF, self._fields(0)

    def _take(self, size: int) -> bytes:
        if size < 0 or self._discarded + self._at + size > _MAX_BYTES:
            raise ThriftError(f"the response is larger than {_MAX_BYTES >> 20} MB or not Thrift")
        while len(self._buffer) - self._at < size:
            if self._at > _CHUNK_BYTES:
                del self._buffer[: self._at]
                self._discarded, self._at = self._discarded + self._at, 0
            left = self._deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            self._stream.settimeout(left)
            chunk = self._stream.recv(_CHUNK_BYTES)
            if not chunk:
                raise ThriftError("the connection was closed")
            self._buffer += chunk
        taken = bytes(self._buffer[self._at : self._at + size])
        self._at += size
        return taken

    def _number(self, layout: str) -> Any:  # noqa: ANN401 (depends on the layout)
        return struct.unpack(layout, self._take(struct.calcsize(layout)))[0]

    def _value(self, kind: int, depth: int) -> object:
        if kind in _NUMBERS:
            return self._number(_NUMBERS[kind])
        if kind not in self._readers or depth >= _MAX_DEPTH:
            raise ThriftError(f"the response cannot be read: type {kind} at depth {depth}")
        return self._readers[kind](depth + 1)

    def _text(self, _: int) -> str:
        return self._take(self._number(">i")).decode(errors="replace")

    def _fields(self, depth: int) -> Fields:
        fields: Fields = {}
        while kind := self._number(">b"):
            number = self._number(">h")
            fields[number] = self._value(kind, depth)
        return fields

    def _list(self, depth: int) -> list[object]:
        kind, size = self._number(">b"), self._number(">i")
        return [self._value(kind, depth) for _ in range(size)]

    def _map(self, depth: int) -> dict[object, object]:
        key, value, size = self._number(">b"), self._number(">b"), self._number(">i")
        return {_key(self._value(key, depth)): self._value(value, depth) for _ in range(size)}


def _key(value: object) -> object:
    """A map's key. Some maps have lists as keys (a skewed table's locations); a dict needs them as text."""
    return value if isinstance(value, Hashable) else str(value)
