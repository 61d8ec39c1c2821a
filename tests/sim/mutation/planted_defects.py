"""Checks that are disabled in the product while a seed runs; a mutated file must detect each."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
from pyiceberg.avro.file import AvroFile
from pyiceberg.io import InputFile

from spark_job.changelog import added_files
from spark_job.columns import parquet_columns
from spark_job.index import blocks, byte_ranges, root
from spark_job.pyiceberg_private import avro, manifest_files
from spark_job.storage import read_exactly
from spark_job.write import deletion_vectors
from tests.sim.engine.planting import PlantedDefect, instead


class _AnyNumber(int):
    """A checksum that equals every value."""

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    def __hash__(self) -> int:
        return 0

    def __str__(self) -> str:
        return _AnyText("0")


class _AnyText(str):
    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    def __hash__(self) -> int:
        return 0


_RETURN_NONE = instead(None)


def _any_checksum(_zlib: Any) -> Any:
    return SimpleNamespace(crc32=lambda _data: _AnyNumber())


def _read_like_pyiceberg(_read: Any) -> Any:
    def read(self: avro.AvroRecordReader, source: InputFile) -> list[Any]:
        with AvroFile[Any](source, self.schema, dict(self.types), dict(self.enums)) as reader:
            return list(reader)

    return read


PLANTED: dict[str, PlantedDefect] = {
    "pages not compared with their checksums": PlantedDefect(
        ((parquet_columns, "_parse", lambda _parse: lambda stream, *_buffer: pq.ParquetFile(stream)),)
    ),
    "rows of a file not counted": PlantedDefect(((parquet_columns, "_check_rows", _RETURN_NONE),)),
    "blocks of the index not compared with their checksums": PlantedDefect(
        ((blocks, "_check", _RETURN_NONE),)
    ),
    "directory of a segment not compared with its checksum": PlantedDefect(
        ((blocks, "zlib", _any_checksum),)
    ),
    "root not compared with its checksum": PlantedDefect(((root, "zlib", _any_checksum),)),
    "deletion vector not compared with its checksum": PlantedDefect(
        ((deletion_vectors, "zlib", _any_checksum),)
    ),
    "reads beyond the end of a file not checked": PlantedDefect(
        ((read_exactly, "require_size", _RETURN_NONE), (byte_ranges, "require_size", _RETURN_NONE))
    ),
    "truncated manifest accepted as a shorter one": PlantedDefect(
        (
            (avro.AvroRecordReader, "read", _read_like_pyiceberg),
            (manifest_files, "_check_counts", _RETURN_NONE),
            (added_files, "_require_all_files", _RETURN_NONE),
        )
    ),
}
