"""Translates the table's `write.parquet.*` properties into arguments of PyArrow's writer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from icemirror.tables.mirror_properties import (
    BLOOM_FILTER_BYTES,
    BLOOM_FILTER_FPP,
    BLOOM_FILTER_NDV,
    DICTIONARY_BYTES,
    EXPECTED_PAGE_VERSION,
    EXPECTED_PARQUET_CODEC,
    EXPECTED_POSITIVE_NUMBER,
    EXPECTED_PROBABILITY,
    LEVELS,
    PAGE_BYTES,
    PAGE_ROWS,
    PAGE_VERSION,
    PARQUET_CODEC,
    PARQUET_CODECS,
    PARQUET_LEVEL,
    UNCOMPRESSED,
    expected_level,
    is_number,
    is_probability,
)
from spark_job.iceberg.write_properties import invalid_property, read_flag, read_number

BLOOM_FILTER = "write.parquet.bloom-filter-enabled.column."

_PAGE_VERSIONS = {"v1": "1.0", "v2": "2.0"}
_BATCH_ROWS = 1024  # rows between two checks of the page size
_DEFAULT_FPP = 0.01


def parquet_options(properties: Mapping[str, str]) -> dict[str, Any]:
    """Return the options that are the same for all files of a table."""
    version = properties.get(PAGE_VERSION) or "v1"
    if version not in _PAGE_VERSIONS:
        raise invalid_property(PAGE_VERSION, version, EXPECTED_PAGE_VERSION)
    page_rows = read_number(properties, PAGE_ROWS)
    options = {
        **_compression(properties),
        "data_page_size": read_number(properties, PAGE_BYTES),
        "data_page_version": _PAGE_VERSIONS[version],
        "dictionary_pagesize_limit": read_number(properties, DICTIONARY_BYTES),
        "write_batch_size": min(page_rows, _BATCH_ROWS),
        "store_decimal_as_integer": True,
        "write_page_checksum": True,
    }
    return {**options, "max_rows_per_page": page_rows} if PAGE_ROWS in properties else options


def _compression(properties: Mapping[str, str]) -> dict[str, Any]:
    codec = (properties.get(PARQUET_CODEC) or "zstd").lower()
    if codec == UNCOMPRESSED:
        return {"compression": "none"}
    if codec not in PARQUET_CODECS:
        raise invalid_property(PARQUET_CODEC, codec, EXPECTED_PARQUET_CODEC)
    text = properties.get(PARQUET_LEVEL)
    if not text or codec not in LEVELS:
        return {"compression": codec}
    if (expected := expected_level(codec, text)) is not None:
        raise invalid_property(PARQUET_LEVEL, text, expected)
    return {"compression": codec, "compression_level": int(text)}


def bloom_filters(properties: Mapping[str, str], paths: Mapping[str, str], rows: int) -> dict[str, Any]:
    """Return the bloom filters for row groups with this many rows. `paths`: column name → path in the Parquet file.

    A filter is sized for one distinct value per row, unless the table's properties state how many. It never exceeds the
    bytes that the properties allow. A column that the file lacks has no filter.
    """
    max_bytes = read_number(properties, BLOOM_FILTER_BYTES)
    filters: dict[str, Any] = {}
    for name in properties:
        column = name.removeprefix(BLOOM_FILTER)
        if column == name or column not in paths or not read_flag(properties, name, default=False):
            continue
        fpp = _read_fpp(properties, f"{BLOOM_FILTER_FPP}{column}")
        limit = _max_distinct_values(max_bytes, fpp)
        configured = properties.get(f"{BLOOM_FILTER_NDV}{column}")
        ndv = _parse_ndv(f"{BLOOM_FILTER_NDV}{column}", configured) if configured else rows
        filters[paths[column]] = {"ndv": max(1, min(ndv, limit)), "fpp": fpp}
    return {"bloom_filter_options": filters} if filters else {}


def _read_fpp(properties: Mapping[str, str], name: str) -> float:
    text = properties.get(name)
    if not text:
        return _DEFAULT_FPP
    if not is_probability(text):
        raise invalid_property(name, text, EXPECTED_PROBABILITY)
    return float(text)


def _parse_ndv(name: str, text: str) -> int:
    if not is_number(text):
        raise invalid_property(name, text, EXPECTED_POSITIVE_NUMBER)
    return int(text)


def _max_distinct_values(max_bytes: int, fpp: float) -> int:
    """Return how many values fit in a filter of this size, which is a power of two (Parquet's BloomFilter.md)."""
    bits = 8 << (max_bytes.bit_length() - 1)
    return int(-bits * math.log(1 - fpp ** (1 / 8)) / 8)
