"""Puffin files: a bounded reader that trusts nothing, and a writer.

    "PFA1" | blob … | "PFA1" | footer payload (JSON) | payload size, int32 LE | flags, 4 bytes | "PFA1"

Spec: https://iceberg.apache.org/puffin-spec/
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import SEEK_END
from typing import Any

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pyiceberg.io import FileIO, InputStream

from icemirror import __version__
from icemirror.errors import Corrupt, Transient

MAGIC = b"PFA1"
_TRAILER = struct.Struct("<i4s4s")
_MAX_FOOTER_BYTES = 16 << 20
_MAX_BLOBS = 10_000


class Span(BaseModel):
    """A range of bytes in a file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    offset: int = Field(ge=0)
    length: int = Field(ge=0)


@dataclass(frozen=True, slots=True)
class Blob:
    """A blob to write."""

    type: str
    payload: bytes
    properties: Mapping[str, str] = field(default_factory=dict)
    fields: Sequence[int] = ()


class BlobMetadata(BaseModel):
    """A blob as a footer describes it."""

    model_config = ConfigDict(frozen=True)

    type: str
    offset: int = Field(ge=len(MAGIC))
    length: int = Field(ge=0)
    properties: dict[str, str] = {}

    @property
    def span(self) -> Span:
        """Where the payload lies."""
        return Span(offset=self.offset, length=self.length)


def write_puffin(io: FileIO, path: str, blobs: Sequence[Blob]) -> tuple[int, list[Span]]:
    """Writes the blobs; the file's size and each blob's place."""
    spans: list[Span] = []
    described: list[dict[str, Any]] = []  # JSON objects
    offset = len(MAGIC)
    for blob in blobs:
        spans.append(Span(offset=offset, length=len(blob.payload)))
        described.append(
            {
                "type": blob.type,
                "fields": list(blob.fields),
                "snapshot-id": -1,
                "sequence-number": -1,
                "offset": offset,
                "length": len(blob.payload),
                "properties": dict(blob.properties),
            }
        )
        offset += len(blob.payload)
    footer = json.dumps(
        {"blobs": described, "properties": {"created-by": f"icemirror {__version__}"}}
    ).encode()
    trailer = _TRAILER.pack(len(footer), b"\0\0\0\0", MAGIC)
    with io.new_output(path).create() as stream:
        for part in (MAGIC, *(blob.payload for blob in blobs), MAGIC, footer, trailer):
            stream.write(part)
    return offset + len(MAGIC) + len(footer) + len(trailer), spans


def read_blobs(io: FileIO, path: str) -> list[BlobMetadata]:
    """The blobs of a Puffin file, checked to lie within it."""
    source = io.new_input(path)
    size = len(source)
    with source.open() as stream:
        if size < 2 * len(MAGIC) + _TRAILER.size:
            raise Corrupt(f"{path}: {size} bytes are too few for a Puffin file")
        length, flags, tail = _TRAILER.unpack(read_exactly(stream, path, size - _TRAILER.size, _TRAILER.size))
        start = size - _TRAILER.size - length - len(MAGIC)
        if tail != MAGIC or not 0 < length <= _MAX_FOOTER_BYTES or start < len(MAGIC):
            raise Corrupt(f"{path}: not a Puffin file, or its footer is damaged")
        if flags != b"\0\0\0\0":
            raise Corrupt(f"{path}: a compressed Puffin footer is not something icemirror writes")
        payload = read_exactly(stream, path, start, length + len(MAGIC))
        head = read_exactly(stream, path, 0, len(MAGIC))
    if head != MAGIC or payload[: len(MAGIC)] != MAGIC:
        raise Corrupt(f"{path}: the magic bytes of a Puffin file are missing")
    return _parse_footer(path, payload[len(MAGIC) :], start)


def _parse_footer(path: str, payload: bytes, end_of_blobs: int) -> list[BlobMetadata]:
    try:
        described = json.loads(payload)["blobs"]
        if len(described) > _MAX_BLOBS:
            raise Corrupt(f"{path}: {len(described)} blobs, at most {_MAX_BLOBS} expected")
        blobs = [BlobMetadata.model_validate(blob) for blob in described]
    except (ValueError, KeyError, TypeError, RecursionError, ValidationError) as error:
        raise Corrupt(f"{path}: the Puffin footer cannot be read") from error
    end = len(MAGIC)
    for blob in sorted(blobs, key=lambda blob: blob.offset):
        if blob.offset < end or blob.offset + blob.length > end_of_blobs:
            raise Corrupt(f"{path}: blob {blob.type} overlaps another one, or reaches beyond the footer")
        end = blob.offset + blob.length
    return blobs


def read_exactly(stream: InputStream, path: str, offset: int, length: int) -> bytes:
    """These bytes of a file, all of them."""
    require_room(stream, path, offset + length)
    stream.seek(offset)
    return require_whole(path, length, stream.read(length))


def require_room(stream: InputStream, path: str, end: int) -> None:
    """Refuses places beyond the end of a file, for which object stores have an error like any other."""
    # Arrow's file on Google Cloud Storage cannot be moved to its end.
    size = stream.size() if isinstance(stream, pa.NativeFile) else stream.seek(0, SEEK_END)
    if size < end:
        raise Corrupt(f"{path}: ends before byte {end}")


def require_whole(path: str, length: int, data: bytes) -> bytes:
    """The bytes that were read of a place within the file, if they are all that were asked for."""
    if len(data) != length:
        raise Transient(f"{path}: storage gave {len(data)} bytes of {length}")
    return data


def read_span(io: FileIO, path: str, span: Span, limit: int) -> bytes:
    """The bytes of a span, which may not be longer than `limit`."""
    if span.length > limit:
        raise Corrupt(f"{path}: a part of {span.length} bytes, at most {limit} expected")
    with io.new_input(path).open() as stream:
        return read_exactly(stream, path, span.offset, span.length)
