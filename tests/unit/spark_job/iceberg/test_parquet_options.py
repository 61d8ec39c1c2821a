"""Table properties have the same effect on files as in Iceberg Java."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO, schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType, StructType

from icemirror.errors import Invalid
from spark_job.iceberg.parquet_options import bloom_filters, parquet_options
from spark_job.write.parquet_writer import ParquetFileWriter

PARQUET = "write.parquet."
SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "place", StructType(NestedField(3, "name", StringType(), required=False)), required=False),
)


def write(folder: Path, **properties: str) -> pq.FileMetaData:
    table_properties = {
        PARQUET + name.replace("__", ".").replace("_", "-"): value for name, value in properties.items()
    }
    arrow = schema_to_pyarrow(SCHEMA)
    table = pa.Table.from_pylist(
        [{"id": number, "place": {"name": f"n{number}"}} for number in range(1000)], schema=arrow
    )
    files = ParquetFileWriter(SCHEMA, table_properties)
    files.write(PyArrowFileIO().new_output(str(folder / "f.parquet")), table, files.new_sizer())
    return pq.read_metadata(folder / "f.parquet")


@pytest.mark.parametrize(
    ("codec", "written"),
    [
        ("zstd", "ZSTD"),
        ("GZIP", "GZIP"),
        ("snappy", "SNAPPY"),
        ("uncompressed", "UNCOMPRESSED"),
        ("lz4", "LZ4"),
    ],
)
def test_files_have_the_codec_of_the_table_property(tmp_path: Path, codec: str, written: str) -> None:
    assert write(tmp_path, compression_codec=codec).row_group(0).column(0).compression == written


def test_compression_level_is_ignored_for_codecs_without_levels() -> None:
    assert parquet_options({f"{PARQUET}compression-level": "9"})["compression_level"] == 9
    both = {f"{PARQUET}compression-codec": "snappy", f"{PARQUET}compression-level": "9"}
    assert "compression_level" not in parquet_options(both)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("compression-codec", "lzo"),
        ("compression-level", "23"),
        ("compression-level", "high"),
        ("page-version", "v3"),
        ("page-size-bytes", "0"),
        ("page-row-limit", "-1"),
        ("dict-size-bytes", "x"),
    ],
)
def test_invalid_property_is_refused(name: str, value: str) -> None:
    with pytest.raises(Invalid, match=f"{PARQUET}{name} is '{value}'"):
        parquet_options({f"{PARQUET}{name}": value})


def test_page_row_limit_is_applied(tmp_path: Path) -> None:
    def page_count(limit: dict[str, str]) -> int:
        written = write(tmp_path, **limit).row_group(0).column(0)
        return int(written.total_uncompressed_size)

    assert page_count({"page_row_limit": "10"}) > page_count({}) + 50 * 15  # each page has a header


@pytest.mark.parametrize("column", ["id", "place.name"])
def test_bloom_filter_is_written_for_an_enabled_column(tmp_path: Path, column: str) -> None:
    plain = write(tmp_path)
    size = (tmp_path / "f.parquet").stat().st_size
    found = write(tmp_path, **{f"bloom_filter_enabled__column__{column}": "true"})
    assert (tmp_path / "f.parquet").stat().st_size > size + 1000
    assert found.num_rows == plain.num_rows


PATHS = {"id": "id", "place.name": "place.name"}


def filters(**values: str) -> Any:
    properties = {f"{PARQUET}bloom-filter-enabled.column.id": "true"}
    properties |= {
        f"{PARQUET}bloom-filter-{name.replace('__', '.')}": value for name, value in values.items()
    }
    return bloom_filters(properties, PATHS, 1000)["bloom_filter_options"]


def test_bloom_filter_is_sized_by_rows_or_by_the_property() -> None:
    assert filters() == {"id": {"ndv": 1000, "fpp": 0.01}}
    assert filters(fpp__column__id="0.1", ndv__column__id="50") == {"id": {"ndv": 50, "fpp": 0.1}}


def test_bloom_filter_respects_the_maximum_size() -> None:
    limited = bloom_filters(
        {f"{PARQUET}bloom-filter-enabled.column.id": "true", f"{PARQUET}bloom-filter-max-bytes": "1024"},
        PATHS,
        10**9,
    )
    assert 600 < limited["bloom_filter_options"]["id"]["ndv"] < 1024


@pytest.mark.parametrize("enabled", [{"id": "false"}, {"gone": "true"}])
def test_disabled_or_missing_column_has_no_bloom_filter(enabled: dict[str, str]) -> None:
    properties = {f"{PARQUET}bloom-filter-enabled.column.{name}": value for name, value in enabled.items()}
    assert bloom_filters(properties, PATHS, 1000) == {}


@pytest.mark.parametrize(("name", "value"), [("fpp", "0"), ("fpp", "x"), ("ndv", "0"), ("ndv", "-3")])
def test_invalid_bloom_filter_option_is_refused(name: str, value: str) -> None:
    with pytest.raises(Invalid, match=f"bloom-filter-{name}.column.id"):
        filters(**{f"{name}__column__id": value})
