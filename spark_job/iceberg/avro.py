"""Avro files of records, as manifests and manifest lists are.

How a record is read and written is PyIceberg's. Done here is what it does anew for every file and every record: a
schema is resolved once, and all records of a file are one block. And what it does not do: its decoder reads on where
the bytes end, so files are taken apart here, within bounds.

    "Obj\\1" | metadata: map of bytes | sync, 16 bytes | block … ;  block: records, bytes, content, sync

Spec: https://avro.apache.org/docs/1.12.0/specification/#object-container-files
"""

from __future__ import annotations

import json
import os
import zlib
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from types import TracebackType
from typing import Any, Self

from pyiceberg.avro.codecs import AVRO_CODEC_KEY, CODEC_MAPPING_ICEBERG_TO_AVRO, KNOWN_CODECS
from pyiceberg.avro.codecs.codec import Codec
from pyiceberg.avro.codecs.deflate import DeflateCodec
from pyiceberg.avro.decoder import BinaryDecoder
from pyiceberg.avro.encoder import BinaryEncoder
from pyiceberg.avro.reader import Reader
from pyiceberg.avro.resolver import ReadSchemaResolver, SchemaPartnerAccessor, construct_writer
from pyiceberg.avro.writer import Writer
from pyiceberg.io import InputFile, OutputFile
from pyiceberg.schema import Schema, visit_with_partner
from pyiceberg.typedef import Record
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

from icemirror.errors import Corrupt, Transient

_MAGIC = b"Obj\x01"
_SYNC_BYTES = 16
_SCHEMA_KEY = "avro.schema"
_MOST_TEXT = 200
_MOST_BYTES = 1 << 28
_MOST_SCHEMAS = 256  # a table has few: one for each partition spec and format version


@dataclass(frozen=True, eq=False)
class Decoded:
    """The records of a file, and the bytes that they were made of, each from its place in `starts` on.

    The last `taken` of them are those that the file before it ended with.
    """

    records: list[Any]  # of the type that the reader's `types` name for the whole record
    schema: str = ""
    content: bytes = b""
    starts: tuple[int, ...] = ()
    taken: int = 0

    def end_alike(self, schema: str, content: bytes, at: int) -> int | None:
        """From which record on all is the same as in another file from `at` on; None if nothing is."""
        start = at + len(self.content) - len(content)
        place = bisect_left(self.starts, start)
        if schema != self.schema or place == len(self.starts) or self.starts[place] != start:
            return None
        return place if self.content[start:] == content[at:] else None  # views are compared byte by byte


NOTHING = Decoded([])


@dataclass(frozen=True, eq=False)
class RecordReader:
    """Reads records into the fields of `schema`, whatever the file's own: structs by `types`, values by `enums`."""

    schema: Schema
    types: Mapping[int, Callable[..., Record]]
    enums: Mapping[int, Callable[..., Enum]]

    def read(self, source: InputFile) -> list[Any]:  # as in `Decoded`
        """The records of a file, in its order."""
        return self.read_after(source, NOTHING).records

    def read_after(self, source: InputFile, before: Decoded) -> Decoded:
        """The records of a file. Those at its end that another file ends with as well are taken over from there."""
        with source.open(seekable=False) as stream:
            content = stream.read()
        try:
            return self._decode(_Span(content), before)
        except Exception as error:  # storage has done its part: whatever the decoder stumbles over is damage
            if len(content) < len(source):
                raise Transient(
                    f"{source.location}: storage gave {len(content)} bytes of {len(source)}"
                ) from error
            raise Corrupt(
                f"{source.location}: the Avro file cannot be read ({type(error).__name__}: {str(error)[:_MOST_TEXT]})"
            ) from error

    def _decode(self, file: _Span, before: Decoded) -> Decoded:
        if file.read(len(_MAGIC)) != _MAGIC:
            raise ValueError("it does not begin like one")
        meta = file.read_map()
        sync = file.read(_SYNC_BYTES)
        schema = meta[_SCHEMA_KEY].decode()
        codec = KNOWN_CODECS[meta.get(AVRO_CODEC_KEY, b"null").decode()]  # type: ignore[index]
        count, blocks = 0, list[bytes]()
        while not file.ended:
            count += file.read_int()
            block = file.read(file.read_int())
            if file.read(_SYNC_BYTES) != sync:
                raise ValueError("a block does not end as it should")
            blocks.append(_unpack(codec, block) if codec else block)
        return self._decode_records(schema, b"".join(blocks), count, before)

    def _decode_records(self, schema: str, content: bytes, count: int, before: Decoded) -> Decoded:
        read = _resolve(self, schema).read
        decoder = _Span(content)
        records: list[Any] = []
        starts: list[int] = []
        at = taken = 0
        while at < len(content) and len(records) < count:
            if (place := before.end_alike(schema, content, at)) is not None:
                moved = len(content) - len(before.content)
                records += before.records[place:]
                starts += [start + moved for start in before.starts[place:]]
                at, taken = len(content), len(before.records) - place
            else:
                records.append(read(decoder))
                starts.append(at)
                at = decoder.tell()
        if len(records) != count or at != len(content):
            raise ValueError("its records are not as many, or not as long, as it says")
        return Decoded(records, schema, content, tuple(starts), taken)


def _unpack(codec: type[Codec], block: bytes) -> bytes:
    """The content of a block; that of the usual codec no longer than any manifest is."""
    if codec is not DeflateCodec:
        return codec.decompress(block)
    unpacker = zlib.decompressobj(-zlib.MAX_WBITS)
    content = unpacker.decompress(block, _MOST_BYTES)
    if not unpacker.eof:
        raise ValueError(f"a block is cut, or longer than {_MOST_BYTES} bytes")
    return content


@lru_cache(_MOST_SCHEMAS)
def _resolve(into: RecordReader, schema: str) -> Reader:
    file_schema = AvroSchemaConversion().avro_to_iceberg(json.loads(schema))
    resolver = ReadSchemaResolver(dict(into.types), dict(into.enums))
    reader: Reader = visit_with_partner(  # type: ignore[misc]  # PyIceberg has types for one kind of partner only
        file_schema, into.schema, resolver, SchemaPartnerAccessor()
    )
    return reader


class _Span(BinaryDecoder):
    """Bytes that are taken from the front, never more than there are; PyIceberg's quick decoder reads on behind them.

    Nor has that one enough digits for a double.
    """

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def tell(self) -> int:
        """How many were taken."""
        return self._at

    @property
    def ended(self) -> bool:
        """Whether nothing is left."""
        return self._at >= len(self._data)

    def skip(self, n: int) -> None:
        """Leaves out so many bytes."""
        self.read(n)

    def read(self, n: int) -> bytes:
        """So many bytes."""
        start, self._at = self._at, self._at + n
        if not start <= self._at <= len(self._data):
            raise EOFError("it ends too early")
        return self._data[start : self._at]

    def read_int(self) -> int:
        """A number of seven bits a byte, low ones first, the sign in the lowest."""
        number = shift = 0
        for at in range(self._at, len(self._data)):
            byte = self._data[at]
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                self._at = at + 1
                return (number >> 1) ^ -(number & 1)
            shift += 7
        raise EOFError("it ends too early")

    def read_map(self) -> dict[str, bytes]:
        """A map of bytes, in blocks; one whose number of entries is negative has its size in bytes as well."""
        found: dict[str, bytes] = {}
        while count := self.read_int():
            if count < 0:
                self.read_int()
            for _ in range(abs(count)):
                name = self.read(self.read_int()).decode()
                found[name] = self.read(self.read_int())
        return found


@dataclass(frozen=True)
class RecordFormat:
    """How records of a schema are written."""

    text: str
    writer: Writer

    @classmethod
    def of(cls, schema: Schema, name: str) -> RecordFormat:
        """For files whose records have exactly the fields of the schema."""
        text = json.dumps(AvroSchemaConversion().iceberg_to_avro(schema, schema_name=name))
        return cls(text, construct_writer(schema))


class RecordFile:
    """A file to write, in the place of PyIceberg's `AvroOutputFile`. Nothing is stored before all is there."""

    def __init__(self, output: OutputFile, records: RecordFormat, metadata: Mapping[str, str]) -> None:
        self._output, self._records, self._metadata = output, records, metadata
        self._count = self._bytes = 0
        self._block = _Encoder()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._store()

    def write_block(self, records: Iterable[Any]) -> None:  # whatever the schema describes
        """Takes in records, in the form that they have now."""
        for record in records:
            self._records.writer.write(self._block, record)
            self._count += 1

    @property
    def output_file(self) -> RecordFile:
        """What PyIceberg asks for its length."""
        return self

    def __len__(self) -> int:
        return self._bytes

    def _store(self) -> None:
        named = self._metadata[AVRO_CODEC_KEY]
        name = CODEC_MAPPING_ICEBERG_TO_AVRO.get(named, named)
        codec = KNOWN_CODECS[name]  # type: ignore[index]
        sync = os.urandom(_SYNC_BYTES)
        file = _Encoder()
        file.write(_MAGIC)
        file.write_map({**self._metadata, _SCHEMA_KEY: self._records.text, AVRO_CODEC_KEY: name})
        file.write(sync)
        if self._count:
            content = bytes(self._block.data)
            file.write_int(self._count)
            file.write_bytes(codec.compress(content)[0] if codec else content)
            file.write(sync)
        with self._output.create(overwrite=True) as stream:
            stream.write(bytes(file.data))
        self._bytes = len(file.data)


class _Encoder(BinaryEncoder):
    """PyIceberg's own writes to a stream, byte by byte."""

    def __init__(self) -> None:
        self.data = bytearray()

    def write(self, b: bytes) -> None:
        self.data += b

    def write_boolean(self, boolean: bool) -> None:
        self.data.append(bool(boolean))

    def write_int(self, integer: int) -> None:
        datum = (integer << 1) ^ (integer >> 63)
        while datum > 0x7F:
            self.data.append((datum & 0x7F) | 0x80)
            datum >>= 7
        self.data.append(datum)

    def write_bytes(self, b: bytes) -> None:
        self.write_int(len(b))
        self.data += b

    def write_map(self, entries: Mapping[str, str]) -> None:
        self.write_int(len(entries))
        for name, value in entries.items():
            self.write_utf8(name)
            self.write_utf8(value)
        self.write_int(0)
