"""Byte ranges of a file that no checksum covers: headers and footers. Mutations target them."""

from __future__ import annotations

import json
import struct

import pyarrow as pa
import pyarrow.parquet as pq

from spark_job.index.orders import BLOB_TYPE as ORDERS

Span = tuple[int, int]
"""First byte, and the byte after the last one."""

PUFFIN_TRAILER = 12
_SYNC = 16


def uncovered(content: bytes) -> list[Span]:
    """Return footers and page headers; the whole file if it is neither Parquet nor Puffin."""
    if content.startswith(b"PAR1"):
        return [*_page_headers(content), _parquet_footer(content)]
    if content.startswith(b"PFA1"):
        return [*_uncovered_in_blob(content), (puffin_footer(content)[0], len(content))]
    return [(0, len(content))]


def _uncovered_in_blob(content: bytes) -> list[Span]:
    """Return the same for the blob of a Puffin file that is a Parquet file."""
    start, end = puffin_footer(content)
    for blob in json.loads(content[start:end])["blobs"]:
        if blob["type"] == ORDERS:
            at = blob["offset"]
            inner = uncovered(content[at : at + blob["length"]])
            return [(at + start, at + end) for start, end in inner]
    return []


def _parquet_footer(content: bytes) -> Span:
    (length,) = struct.unpack_from("<I", content, len(content) - 8)
    return len(content) - 8 - length, len(content)


def puffin_footer(content: bytes) -> Span:
    """Return the span of the JSON in a Puffin file's footer."""
    (length,) = struct.unpack_from("<i", content, len(content) - PUFFIN_TRAILER)
    return len(content) - PUFFIN_TRAILER - length, len(content) - PUFFIN_TRAILER


def _page_headers(content: bytes) -> list[Span]:
    footer = pq.read_metadata(pa.BufferReader(content))
    spans: list[Span] = []
    for group in range(footer.num_row_groups):
        for column in range(footer.num_columns):
            chunk = footer.row_group(group).column(column)
            at = chunk.dictionary_page_offset or chunk.data_page_offset
            end = at + chunk.total_compressed_size
            while at < end:
                after, body = _header(content, at)
                spans.append((at, after))
                at = after + body
    return spans


def _header(content: bytes, at: int) -> tuple[int, int]:
    """Return where a page header (Thrift's compact protocol) ends, and the length of the page."""
    reader = _Thrift(content, at)
    numbers = reader.struct()
    return reader.at, numbers[3]  # compressed_page_size


def avro_values(content: bytes) -> list[Span]:
    """Return the spans of all values of an Avro file, header included. They have no checksums."""
    reader, spans = _Numbers(content, 4), list[Span]()
    while count := reader.zigzag():
        for _ in range(2 * count):
            spans.append(reader.bytes())
    reader.at += _SYNC
    while reader.at < len(content):
        reader.zigzag()
        spans.append(reader.bytes())
        reader.at += _SYNC
    return spans


def differs_only_within(left: bytes, right: bytes, spans: list[Span]) -> bool:
    """Return whether two files differ only in these ranges."""
    edges = [0, *(edge for span in spans for edge in span), len(left)]
    between = zip(edges[::2], edges[1::2], strict=True)
    return len(left) == len(right) and all(left[start:end] == right[start:end] for start, end in between)


class _Numbers:
    """Reads numbers as Thrift's compact protocol and Avro write them."""

    def __init__(self, content: bytes, at: int) -> None:
        self.content, self.at = content, at

    def byte(self) -> int:
        self.at += 1
        return self.content[self.at - 1]

    def varint(self) -> int:
        number = shift = 0
        while (byte := self.byte()) & 0x80:
            number |= (byte & 0x7F) << shift
            shift += 7
        return number | byte << shift

    def zigzag(self) -> int:
        number = self.varint()
        return (number >> 1) ^ -(number & 1)

    def bytes(self) -> Span:
        """Read bytes with a length prefix; return their span."""
        length = self.zigzag()
        self.at += length
        return self.at - length, self.at


class _Thrift(_Numbers):
    """Reads the numbers of a struct."""

    def struct(self) -> dict[int, int]:
        numbers: dict[int, int] = {}
        field = 0
        while (head := self.byte()) != 0:
            field = field + (head >> 4) if head >> 4 else self.zigzag()
            value = self._value(head & 15)
            if value is not None:
                numbers[field] = value
        return numbers

    def _value(self, kind: int) -> int | None:
        match kind:
            case 1 | 2:  # true, false
                return None
            case 3:
                return self.byte()
            case 4 | 5 | 6:
                return self.zigzag()
            case 7:
                self.at += 8
            case 8:
                length = self.varint()
                self.at += length
            case 9 | 10:
                head = self.byte()
                count = head >> 4 if head >> 4 != 15 else self.varint()
                for _ in range(count):
                    self._value(head & 15)
            case 12:
                self.struct()
            case _:
                raise ValueError(f"a field of kind {kind}")
        return None
