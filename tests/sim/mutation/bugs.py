"""Checks that are left out of the product while a seed runs: some mutated file must bring each of them to light."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
from pyiceberg.avro.file import AvroFile
from pyiceberg.io import InputFile

from spark_job.changelog import lineage
from spark_job.columns import parquet_columns
from spark_job.iceberg import avro, seams
from spark_job.key_index import blocks, puffin, ranges, root
from spark_job.write import deletion_vector
from tests.sim.engine.planting import Bug, instead


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
    def read(self: avro.RecordReader, source: InputFile) -> list[Any]:
        with AvroFile[Any](source, self.schema, dict(self.types), dict(self.enums)) as reader:
            return list(reader)

    return read


BUGS: dict[str, Bug] = {
    "pages not compared with their checksums": Bug(
        ((parquet_columns, "_parse", lambda _parse: lambda stream, *_buffer: pq.ParquetFile(stream)),)
    ),
    "rows of a file not counted": Bug(((parquet_columns, "_check_rows", _NOTHING),)),
    "blocks of the index not compared with their checksums": Bug(((blocks, "_check", _NOTHING),)),
    "directory of a segment not compared with its checksum": Bug(((blocks, "zlib", _any_checksum),)),
    "root not compared with its checksum": Bug(((root, "zlib", _any_checksum),)),
    "deletion vector not compared with its checksum": Bug(((deletion_vector, "zlib", _any_checksum),)),
    "places beyond the end of a file asked for": Bug(
        ((puffin, "require_room", _NOTHING), (ranges, "require_room", _NOTHING))
    ),
    "manifest that was cut taken for a shorter one": Bug(
        (
            (avro.RecordReader, "read", _as_pyiceberg_does),
            (seams, "_check_counts", _NOTHING),
            (lineage, "_require_all", _NOTHING),
        )
    ),
}
