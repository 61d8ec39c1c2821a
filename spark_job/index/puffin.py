"""Reads and writes Puffin files. The reader checks all sizes: PyIceberg's accepts a wrong checksum and unbounded sizes.

    "PFA1" | blob … | "PFA1" | footer payload (JSON) | payload size, int32 LE | flags, 4 bytes | "PFA1"

Spec: https://iceberg.apache.org/puffin-spec/
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pyiceberg.io import FileIO

from icemirror import __version__
from icemirror.errors import Corrupt
from spark_job.storage.read_exactly import read_exactly

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
    """A blob as the footer describes it."""

    model_config = ConfigDict(frozen=True)

    type: str
    offset: int = Field(ge=len(MAGIC))
    length: int = Field(ge=0)
    properties: dict[str, str] = {}

    @property
    def span(self) -> Span:
        """The byte range of the payload."""
        return Span(offset=self.offset, length=self.length)


def write_puffin(io: FileIO, path: str, blobs: Sequence[Blob]) -> tuple[int, list[Span]]:
    """Write the blobs. Return the file's size and the span of each blob."""
    spans: list[Span] = []
    descriptions: list[dict[str, Any]] = []  # JSON objects
    offset = len(MAGIC)
    for blob in blobs:
        spans.append(Span(offset=offset, length=len(blob.payload)))
        descriptions.append(
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
        {"blobs": descriptions, "properties": {"created-by": f"icemirror {__version__}"}}
    ).encode()
    trailer = _TRAILER.pack(len(footer), b"\0\0\0\0", MAGIC)
    with io.new_output(path).create() as stream:
        for part in (MAGIC, *(blob.payload for blob in blobs), MAGIC, footer, trailer):
            stream.write(part)
    return offset + len(MAGIC) + len(footer) + len(trailer), spans


def read_blobs(io: FileIO, path: str) -> list[BlobMetadata]:
    """Return the blobs of a Puffin file. They lie within the file and do not overlap."""
    source = io.new_input(path)
    size = len(source)
    with source.open() as stream:
        if size < 2 * len(MAGIC) + _TRAILER.size:
            raise Corrupt(f"{size} bytes are too few for a Puffin file: {path}")
        length, flags, end_magic = _TRAILER.unpack(
            read_exactly(stream, path, size - _TRAILER.size, _TRAILER.size)
        )
        start = size - _TRAILER.size - length - len(MAGIC)
        if end_magic != MAGIC or not 0 < length <= _MAX_FOOTER_BYTES or start < len(MAGIC):
            raise Corrupt(f"not a Puffin file, or its footer is damaged: {path}")
        if flags != b"\0\0\0\0":
            raise Corrupt(f"the Puffin footer is compressed, which icemirror does not support: {path}")
        payload = read_exactly(stream, path, start, length + len(MAGIC))
        start_magic = read_exactly(stream, path, 0, len(MAGIC))
    if start_magic != MAGIC or payload[: len(MAGIC)] != MAGIC:
        raise Corrupt(f"the magic bytes of a Puffin file are missing: {path}")
    return _parse_footer(path, payload[len(MAGIC) :], start)


def _parse_footer(path: str, payload: bytes, end_of_blobs: int) -> list[BlobMetadata]:
    try:
        descriptions = json.loads(payload)["blobs"]
        if len(descriptions) > _MAX_BLOBS:
            raise Corrupt(f"{len(descriptions)} blobs, at most {_MAX_BLOBS} expected: {path}")
        blobs = [BlobMetadata.model_validate(description) for description in descriptions]
    except (ValueError, KeyError, TypeError, RecursionError, ValidationError) as error:
        raise Corrupt(f"the Puffin footer cannot be parsed: {path}") from error
    end = len(MAGIC)
    for blob in sorted(blobs, key=lambda blob: blob.offset):
        if blob.offset < end or blob.offset + blob.length > end_of_blobs:
            raise Corrupt(f"blob {blob.type} overlaps another blob, or reaches beyond the footer: {path}")
        end = blob.offset + blob.length
    return blobs


def read_span(io: FileIO, path: str, span: Span, max_bytes: int) -> bytes:
    """Return the bytes of a span, which may not be longer than `max_bytes`."""
    if span.length > max_bytes:
        raise Corrupt(f"a blob has {span.length} bytes, at most {max_bytes} expected: {path}")
    with io.new_input(path).open() as stream:
        return read_exactly(stream, path, span.offset, span.length)
