"""The table's `write.parquet.*` properties as arguments of PyArrow's writer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from spark_job.iceberg.write_properties import (
    BLOOM_FILTER_BYTES,
    DICTIONARY_BYTES,
    PAGE_BYTES,
    PAGE_ROWS,
    read_flag,
    read_number,
    refuse,
)

CODEC = "write.parquet.compression-codec"
LEVEL = "write.parquet.compression-level"
PAGE_VERSION = "write.parquet.page-version"
BLOOM_FILTER = "write.parquet.bloom-filter-enabled.column."
BLOOM_FILTER_FPP = "write.parquet.bloom-filter-fpp.column."
BLOOM_FILTER_NDV = "write.parquet.bloom-filter-ndv.column."

_CODECS = ("zstd", "gzip", "snappy", "lz4", "lz4_raw", "brotli")
_LEVELLED = ("zstd", "gzip", "brotli")
_PAGE_VERSIONS = {"v1": "1.0", "v2": "2.0"}
_BATCH_ROWS = 1024  # between two looks at the size of a page
_FALSE_POSITIVES = 0.01


def parquet_options(properties: Mapping[str, str]) -> dict[str, Any]:
    """What all files of a table have in common."""
    version = properties.get(PAGE_VERSION, "v1")
    if version not in _PAGE_VERSIONS:
        raise refuse(PAGE_VERSION, version, "v1 or v2")
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
    codec = properties.get(CODEC, "zstd").lower()
    if codec == "uncompressed":
        return {"compression": "none"}
    if codec not in _CODECS:
        raise refuse(CODEC, codec, f"one of {', '.join(_CODECS)}, uncompressed")
    text = properties.get(LEVEL)
    if not text or codec not in _LEVELLED:  # Iceberg Java takes no notice of a level for the others
        return {"compression": codec}
    least, most = pa.Codec.minimum_compression_level(codec), pa.Codec.maximum_compression_level(codec)
    try:
        level = int(text)
    except ValueError:
        level = most + 1
    if not least <= level <= most:
        raise refuse(LEVEL, text, f"a level of {codec}, {least} to {most}")
    return {"compression": codec, "compression_level": level}


def bloom_filters(properties: Mapping[str, str], paths: Mapping[str, str], rows: int) -> dict[str, Any]:
    """Filters for row groups of so many rows, by Parquet's paths; `paths` gives them for names of columns.

    A filter is made for as many values as there are rows, unless the table says how many; it never takes more
    bytes than the table allows. A column that is not there has none.
    """
    most_bytes = read_number(properties, BLOOM_FILTER_BYTES)
    filters: dict[str, Any] = {}
    for name in properties:
        column = name.removeprefix(BLOOM_FILTER)
        if column == name or column not in paths or not read_flag(properties, name, default=False):
            continue
        chance = _chance(properties, f"{BLOOM_FILTER_FPP}{column}")
        most = _most_values(most_bytes, chance)
        asked = properties.get(f"{BLOOM_FILTER_NDV}{column}")
        values = rows if asked is None else _values(f"{BLOOM_FILTER_NDV}{column}", asked)
        filters[paths[column]] = {"ndv": max(1, min(values, most)), "fpp": chance}
    return {"bloom_filter_options": filters} if filters else {}


def _chance(properties: Mapping[str, str], name: str) -> float:
    text = properties.get(name)
    if text is None:
        return _FALSE_POSITIVES
    try:
        chance = float(text)
    except ValueError:
        chance = 0.0
    if not 0 < chance < 1:
        raise refuse(name, text, "a number between 0 and 1")
    return chance


def _values(name: str, text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise refuse(name, text, "a whole number above zero")
    return int(text)


def _most_values(most_bytes: int, chance: float) -> int:
    """How many values a filter of so many bytes takes; its size is a power of two (Parquet's BloomFilter.md)."""
    bits = 8 << (most_bytes.bit_length() - 1)
    return int(-bits * math.log(1 - chance ** (1 / 8)) / 8)
