"""Reads and writes Avro object container files: manifests and manifest lists.

PyIceberg encodes and decodes single records. This module adds the container around them, for three reasons:
- PyIceberg's decoder reads beyond the end of damaged files (apache/iceberg-python#3952, fixed after 0.12.0), and
  decompresses without a limit (#3980).
- It resolves the schema again for each file, and writes and compresses one block for each record.
- It cannot reuse records that the previous manifest list already contained.

    "Obj\\1" │ metadata: map of bytes │ sync, 16 bytes │ block │ block │ …
    block:   │ number of records │ bytes │ content │ sync │

Spec: https://avro.apache.org/docs/1.12.0/specification/#object-container-files
Decision record: docs/decisions/0021-avro-containers.md
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
_MAX_TEXT = 200
_MAX_BLOCK_BYTES = 1 << 28
_MAX_SCHEMAS = 256  # a table has few: one for each partition spec and format version


@dataclass(frozen=True, eq=False)
class AvroRecords:
    """The records of a file, with their encoded bytes. Record i begins at `content[starts[i]]`.

    The last `reused` records are those that the previous file ends with.
    """

    records: list[Any]  # of the type that the reader's `types` give for the record
    schema: str = ""
    content: bytes = b""
    starts: tuple[int, ...] = ()
    reused: int = 0

    def common_tail(self, schema: str, content: bytes, position: int) -> int | None:
        """Return the index of the first record of the tail that equals another file's content from `position` on."""
        start = position + len(self.content) - len(content)
        index = bisect_left(self.starts, start)
        if schema != self.schema or index == len(self.starts) or self.starts[index] != start:
            return None
        # Slices compare faster than memoryviews.
        return index if self.content[start:] == content[position:] else None


NO_RECORDS = AvroRecords([])


@dataclass(frozen=True, eq=False)
class AvroRecordReader:
    """Reads records with the fields of `schema`, whatever the file's schema is.

    `types` and `enums` give the classes of structs and enum values by field id; −1 is the record.
    """

    schema: Schema
    types: Mapping[int, Callable[..., Record]]
    enums: Mapping[int, Callable[..., Enum]]

    def read(self, source: InputFile) -> list[Any]:  # as in `AvroRecords`
        """Return the records of a file, in order."""
        return self.read_after(source, NO_RECORDS).records

    def read_after(self, source: InputFile, previous: AvroRecords) -> AvroRecords:
        """Return the records of a file. Records of the common tail with the previous file are reused."""
        with source.open(seekable=False) as stream:
            content = stream.read()
        try:
            return self._decode(_BoundedDecoder(content), previous)
        except Exception as error:  # the read has succeeded, so every error of the decoder means damage
            if len(content) < len(source):
                raise Transient(
                    f"storage returned {len(content)} of {len(source)} bytes: {source.location}"
                ) from error
            text = f"{type(error).__name__}: {str(error)[:_MAX_TEXT]}"
            raise Corrupt(f"the Avro file cannot be parsed ({text}): {source.location}") from error

    def _decode(self, file: _BoundedDecoder, previous: AvroRecords) -> AvroRecords:
        if file.read(len(_MAGIC)) != _MAGIC:
            raise ValueError("the magic bytes are missing")
        meta = file.read_map()
        sync = file.read(_SYNC_BYTES)
        schema = meta[_SCHEMA_KEY].decode()
        codec = KNOWN_CODECS[meta.get(AVRO_CODEC_KEY, b"null").decode()]  # type: ignore[index]
        count, blocks = 0, list[bytes]()
        while not file.ended:
            count += file.read_int()
            block = file.read(file.read_int())
            if file.read(_SYNC_BYTES) != sync:
                raise ValueError("a block does not end with the sync marker")
            blocks.append(_decompress(codec, block) if codec else block)
        return self._decode_records(schema, b"".join(blocks), count, previous)

    def _decode_records(self, schema: str, content: bytes, count: int, previous: AvroRecords) -> AvroRecords:
        read = _resolve(self, schema).read
        decoder = _BoundedDecoder(content)
        records: list[Any] = []
        starts: list[int] = []
        position = reused = 0
        while position < len(content) and len(records) < count:
            if (index := previous.common_tail(schema, content, position)) is not None:
                shift = len(content) - len(previous.content)
                records += previous.records[index:]
                starts += [start + shift for start in previous.starts[index:]]
                position, reused = len(content), len(previous.records) - index
            else:
                records.append(read(decoder))
                starts.append(position)
                position = decoder.tell()
        if len(records) != count or position != len(content):
            raise ValueError("the number or the length of the records is wrong")
        return AvroRecords(records, schema, content, tuple(starts), reused)


def _decompress(codec: type[Codec], block: bytes) -> bytes:
    """Return the content of a block. For deflate, the default codec, its size is limited."""
    if codec is not DeflateCodec:
        return codec.decompress(block)
    decompressor = zlib.decompressobj(-zlib.MAX_WBITS)
    content = decompressor.decompress(block, _MAX_BLOCK_BYTES)
    if not decompressor.eof:
        raise ValueError(f"a block is truncated, or longer than {_MAX_BLOCK_BYTES} bytes")
    return content


@lru_cache(_MAX_SCHEMAS)
def _resolve(reader: AvroRecordReader, schema: str) -> Reader:
    file_schema = AvroSchemaConversion().avro_to_iceberg(json.loads(schema))
    resolver = ReadSchemaResolver(dict(reader.types), dict(reader.enums))
    resolved: Reader = visit_with_partner(  # type: ignore[misc]  # PyIceberg has types for one kind of partner only
        file_schema, reader.schema, resolver, SchemaPartnerAccessor()
    )
    return resolved


class _BoundedDecoder(BinaryDecoder):
    """Decodes bytes from the front and never beyond the end. PyIceberg's Cython decoder has no bounds (#3952).

    The Cython decoder also reads doubles with the precision of floats.
    """

    def __init__(self, data: bytes) -> None:
        self._data, self._position = data, 0

    def tell(self) -> int:
        """Return the position of the next byte."""
        return self._position

    @property
    def ended(self) -> bool:
        """True at the end of the bytes."""
        return self._position >= len(self._data)

    def skip(self, n: int) -> None:
        """Skip the next `n` bytes."""
        self.read(n)

    def read(self, n: int) -> bytes:
        """Return the next `n` bytes."""
        start, self._position = self._position, self._position + n
        if not start <= self._position <= len(self._data):
            raise EOFError("it ends too early")
        return self._data[start : self._position]

    def read_int(self) -> int:
        """Return a zigzag varint: seven bits per byte, low bits first, the sign in the lowest bit."""
        zigzag = shift = 0
        for position in range(self._position, len(self._data)):
            byte = self._data[position]
            zigzag |= (byte & 0x7F) << shift
            if byte < 0x80:
                self._position = position + 1
                return (zigzag >> 1) ^ -(zigzag & 1)
            shift += 7
        raise EOFError("it ends too early")

    def read_map(self) -> dict[str, bytes]:
        """Return a map of bytes. It consists of blocks; a negative count is followed by the block's size in bytes."""
        entries: dict[str, bytes] = {}
        while count := self.read_int():
            if count < 0:
                self.read_int()
            for _ in range(abs(count)):
                name = self.read(self.read_int()).decode()
                entries[name] = self.read(self.read_int())
        return entries


@dataclass(frozen=True)
class AvroRecordSchema:
    """A schema as Avro text, and PyIceberg's writer for its records."""

    text: str
    writer: Writer

    @classmethod
    def from_schema(cls, schema: Schema, name: str) -> AvroRecordSchema:
        """Return the Avro schema of files whose records have exactly the fields of this schema."""
        text = json.dumps(AvroSchemaConversion().iceberg_to_avro(schema, schema_name=name))
        return cls(text, construct_writer(schema))


class AvroRecordFile:
    """A replacement for PyIceberg's `AvroOutputFile`. All records are one block, written at the end."""

    def __init__(self, output: OutputFile, records: AvroRecordSchema, metadata: Mapping[str, str]) -> None:
        self._output, self._records, self._metadata = output, records, metadata
        self._count = self._bytes = 0
        self._block = _Encoder()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error_type is None:
            self._store()

    def write_block(self, records: Iterable[Any]) -> None:  # Any: of the schema's type
        """Encode records at once: the caller may modify them afterwards."""
        for record in records:
            self._records.writer.write(self._block, record)
            self._count += 1

    @property
    def output_file(self) -> AvroRecordFile:
        """PyIceberg calls `len` on it."""
        return self

    def __len__(self) -> int:
        return self._bytes

    def _store(self) -> None:
        codec_name = self._metadata[AVRO_CODEC_KEY]
        avro_codec_name = CODEC_MAPPING_ICEBERG_TO_AVRO.get(codec_name, codec_name)
        codec = KNOWN_CODECS[avro_codec_name]  # type: ignore[index]
        sync = os.urandom(_SYNC_BYTES)
        file = _Encoder()
        file.write(_MAGIC)
        file.write_map({**self._metadata, _SCHEMA_KEY: self._records.text, AVRO_CODEC_KEY: avro_codec_name})
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
    """Encodes into memory. PyIceberg's encoder writes to a stream, byte by byte."""

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
