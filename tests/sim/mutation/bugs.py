"""Checks that are left out of the product while a seed runs: some mutated file must bring each of them to light."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
from pyiceberg.avro.file import AvroFile
from pyiceberg.io import InputFile

from spark_job.changelog import history as lineage
from spark_job.columns import parquet_columns
from spark_job.index import blocks, puffin, root
from spark_job.index import byte_ranges as ranges
from spark_job.pyiceberg_private import avro, manifest_files
from spark_job.write import vectors
from tests.sim.engine.planting import PlantedMistake, instead


class _Anything(int):
    """A checksum that fits."""

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


_NOTHING = instead(None)


def _any_checksum(_zlib: Any) -> Any:
    return SimpleNamespace(crc32=lambda _data: _Anything())


def _as_pyiceberg_does(_read: Any) -> Any:
    def read(self: avro.AvroRecordReader, source: InputFile) -> list[Any]:
        with AvroFile[Any](source, self.schema, dict(self.types), dict(self.enums)) as reader:
            return list(reader)

    return read


BUGS: dict[str, PlantedMistake] = {
    "pages not compared with their checksums": PlantedMistake(
        ((parquet_columns, "_parse", lambda _parse: lambda stream, *_buffer: pq.ParquetFile(stream)),)
    ),
    "rows of a file not counted": PlantedMistake(((parquet_columns, "_check_rows", _NOTHING),)),
    "blocks of the index not compared with their checksums": PlantedMistake(((blocks, "_check", _NOTHING),)),
    "directory of a segment not compared with its checksum": PlantedMistake(
        ((blocks, "zlib", _any_checksum),)
    ),
    "root not compared with its checksum": PlantedMistake(((root, "zlib", _any_checksum),)),
    "deletion vector not compared with its checksum": PlantedMistake(((vectors, "zlib", _any_checksum),)),
    "reads beyond the end of a file not checked": PlantedMistake(
        ((puffin, "require_size", _NOTHING), (ranges, "require_size", _NOTHING))
    ),
    "truncated manifest accepted as a shorter one": PlantedMistake(
        (
            (avro.AvroRecordReader, "read", _as_pyiceberg_does),
            (manifest_files, "_check_counts", _NOTHING),
            (lineage, "_require_all", _NOTHING),
        )
    ),
}
