"""The table's `write.parquet.*` properties as arguments of PyArrow's writer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from icemirror.mirror_properties import (
    A_CHANCE,
    A_PAGE_VERSION,
    A_PARQUET_CODEC,
    ABOVE_ZERO,
    BLOOM_FILTER_BYTES,
    BLOOM_FILTER_FPP,
    BLOOM_FILTER_NDV,
    DICTIONARY_BYTES,
    LEVELS,
    PAGE_BYTES,
    PAGE_ROWS,
    PAGE_VERSION,
    PARQUET_CODEC,
    PARQUET_CODECS,
    PARQUET_LEVEL,
    UNCOMPRESSED,
    is_chance,
    is_number,
    wrong_level,
)
from spark_job.iceberg.write_properties import read_flag, read_number, refuse

BLOOM_FILTER = "write.parquet.bloom-filter-enabled.column."

_PAGE_VERSIONS = {"v1": "1.0", "v2": "2.0"}
_BATCH_ROWS = 1024  # between two looks at the size of a page
_FALSE_POSITIVES = 0.01


def parquet_options(properties: Mapping[str, str]) -> dict[str, Any]:
    """What all files of a table have in common."""
    version = properties.get(PAGE_VERSION) or "v1"
    if version not in _PAGE_VERSIONS:
        raise refuse(PAGE_VERSION, version, A_PAGE_VERSION)
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
        raise refuse(PARQUET_CODEC, codec, A_PARQUET_CODEC)
    text = properties.get(PARQUET_LEVEL)
    if not text or codec not in LEVELS:
        return {"compression": codec}
    if (expected := wrong_level(codec, text)) is not None:
        raise refuse(PARQUET_LEVEL, text, expected)
    return {"compression": codec, "compression_level": int(text)}


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
        values = _values(f"{BLOOM_FILTER_NDV}{column}", asked) if asked else rows
        filters[paths[column]] = {"ndv": max(1, min(values, most)), "fpp": chance}
    return {"bloom_filter_options": filters} if filters else {}


def _chance(properties: Mapping[str, str], name: str) -> float:
    text = properties.get(name)
    if not text:
        return _FALSE_POSITIVES
    if not is_chance(text):
        raise refuse(name, text, A_CHANCE)
    return float(text)


def _values(name: str, text: str) -> int:
    if not is_number(text):
        raise refuse(name, text, ABOVE_ZERO)
    return int(text)


def _most_values(most_bytes: int, chance: float) -> int:
    """How many values a filter of so many bytes takes; its size is a power of two (Parquet's BloomFilter.md)."""
    bits = 8 << (most_bytes.bit_length() - 1)
    return int(-bits * math.log(1 - chance ** (1 / 8)) / 8)
