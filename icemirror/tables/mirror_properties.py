"""The Iceberg table properties that icemirror follows, and their valid values."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from icemirror.similar_names import suggest

TARGET_FILE_BYTES = "write.target-file-size-bytes"
ROW_GROUP_ROWS = "write.parquet.row-group-limit"
ROW_GROUP_BYTES = "write.parquet.row-group-size-bytes"
PAGE_BYTES = "write.parquet.page-size-bytes"
PAGE_ROWS = "write.parquet.page-row-limit"
DICTIONARY_BYTES = "write.parquet.dict-size-bytes"
BLOOM_FILTER_BYTES = "write.parquet.bloom-filter-max-bytes"
BLOOM_FILTER_FPP = "write.parquet.bloom-filter-fpp.column."
BLOOM_FILTER_NDV = "write.parquet.bloom-filter-ndv.column."
MIN_MANIFESTS_TO_MERGE = "commit.manifest.min-count-to-merge"
TARGET_MANIFEST_BYTES = "commit.manifest.target-size-bytes"
MIN_SNAPSHOTS = "history.expire.min-snapshots-to-keep"
MAX_SNAPSHOT_AGE_MS = "history.expire.max-snapshot-age-ms"
MAX_SNAPSHOTS = "icemirror.max-snapshots"
OLD_METADATA_FILES = "write.metadata.previous-versions-max"
METRICS_COLUMNS = "write.metadata.metrics.max-inferred-column-defaults"
AVRO_CODEC = "write.avro.compression-codec"
PARQUET_CODEC = "write.parquet.compression-codec"
PARQUET_LEVEL = "write.parquet.compression-level"
PAGE_VERSION = "write.parquet.page-version"
FORMAT_VERSION = "format-version"

NUMBERS: Mapping[str, int] = {
    TARGET_FILE_BYTES: 512 << 20,
    ROW_GROUP_ROWS: 1 << 20,
    ROW_GROUP_BYTES: 128 << 20,
    PAGE_BYTES: 1 << 20,
    PAGE_ROWS: 20_000,
    DICTIONARY_BYTES: 2 << 20,
    BLOOM_FILTER_BYTES: 1 << 20,
    MIN_MANIFESTS_TO_MERGE: 30,
    TARGET_MANIFEST_BYTES: 8 << 20,
    MIN_SNAPSHOTS: 20,
    MAX_SNAPSHOT_AGE_MS: 24 * 3_600_000,
    MAX_SNAPSHOTS: 100,
    OLD_METADATA_FILES: 20,
}
"""Positive integer properties, with their defaults."""

PATHS = ("write.data.path", "write.metadata.path")
FLAGS = ("write.object-storage.enabled", "write.object-storage.partitioned-paths")
AVRO_CODECS: Mapping[str, str] = {
    "gzip": "deflate",
    "deflate": "deflate",
    "zstd": "zstandard",
    "zstandard": "zstandard",
    "bzip2": "bzip2",
    "snappy": "snappy",
    "uncompressed": "null",
    "none": "null",
    "null": "null",
}
"""Iceberg's name of each codec, and Avro's."""
UNCOMPRESSED = "uncompressed"
PARQUET_CODECS = ("zstd", "gzip", "snappy", "lz4", "lz4_raw", "brotli")
LEVELS: Mapping[str, tuple[int, int]] = {"zstd": (-(1 << 17), 22), "gzip": (1, 9), "brotli": (0, 11)}
"""Lowest and highest level of the codecs that have levels; for others Iceberg Java ignores the level."""
PAGE_VERSIONS = ("v1", "v2")

EXPECTED_POSITIVE_NUMBER = "a whole number above zero"
EXPECTED_PROBABILITY = "a number between 0 and 1"
EXPECTED_PATH = "an absolute path, such as s3://bucket/folder or file:///folder"
EXPECTED_PARQUET_CODEC = f"one of {', '.join((*PARQUET_CODECS, UNCOMPRESSED))}"
EXPECTED_PAGE_VERSION = "v1 or v2"
EXPECTED_AVRO_CODEC = "gzip, zstd, uncompressed, or snappy with python-snappy installed"

_ICEMIRROR_PREFIX = "icemirror."
_BOOLEANS = frozenset(("y", "yes", "t", "true", "on", "1", "n", "no", "f", "false", "off", "0"))
_ABSOLUTE_PATH = re.compile(r"(?!file://[^/])([a-zA-Z][a-zA-Z0-9+.-]*:/|/)")  # file://name would name a host


class InvalidProperty(NamedTuple):
    """A property with an invalid value, and what the value should be."""

    name: str
    expected: str


def invalid_properties(properties: Mapping[str, str]) -> Iterator[InvalidProperty]:
    """Yield every property with an invalid value; an empty value means the default."""
    for name, text in properties.items():
        if name == PARQUET_LEVEL and text:
            expected = expected_level((properties.get(PARQUET_CODEC) or "zstd").lower(), text)
        else:
            expected = next((rule.expected for rule in _RULES if rule.refuses(name, text)), None)
        if text and expected is not None:
            yield InvalidProperty(name, expected)


def reserved_properties(properties: Mapping[str, str], format_version: int) -> Iterator[tuple[str, str]]:
    """Yield properties that `table_properties` must not set, and why."""
    for name, text in properties.items():
        if name == FORMAT_VERSION and text.strip() != str(format_version):
            yield name, f"is {text!r}, but format_version is {format_version}: set format_version instead"
        elif name.startswith(_ICEMIRROR_PREFIX) and name != MAX_SNAPSHOTS:
            hint = suggest(name, [MAX_SNAPSHOTS], cutoff=0.8) or ": remove it"
            yield name, f"is managed by icemirror{hint}"


def is_number(text: str) -> bool:
    """Return whether the text is a positive integer."""
    try:
        return int(text) > 0
    except ValueError:
        return False


def is_absolute_path(text: str) -> bool:
    """Return whether the path does not depend on the working directory, as `abc` and `file://abc` would."""
    return _ABSOLUTE_PATH.match(text) is not None


def expected_level(codec: str, text: str) -> str | None:
    """Return what the level should be; None if it is valid, or the codec has no levels."""
    if codec not in LEVELS:
        return None
    lowest, highest = LEVELS[codec]
    if _is_whole(text) and lowest <= int(text) <= highest:
        return None
    return f"a level of {codec}, {lowest} to {highest}"


def is_probability(text: str) -> bool:
    """Return whether the text is a number between 0 and 1."""
    try:
        value = float(text)
    except ValueError:
        return False
    return math.isfinite(value) and 0 < value < 1


def _is_whole(text: str) -> bool:
    return re.fullmatch(r"\s*[+-]?\d+\s*", text, re.ASCII) is not None


class _PropertyRule(NamedTuple):
    """Which properties it applies to, the check of their values, and the expected value in words."""

    applies_to: Callable[[str], bool]
    is_valid: Callable[[str], bool]
    expected: str

    def refuses(self, name: str, text: str) -> bool:
        """Return whether the rule applies to the property and its value is invalid."""
        return self.applies_to(name) and not self.is_valid(text)


_RULES = (
    _PropertyRule(
        lambda name: name in NUMBERS or name.startswith(BLOOM_FILTER_NDV), is_number, EXPECTED_POSITIVE_NUMBER
    ),
    _PropertyRule(lambda name: name.startswith(BLOOM_FILTER_FPP), is_probability, EXPECTED_PROBABILITY),
    _PropertyRule(lambda name: name == METRICS_COLUMNS, _is_whole, "a whole number"),
    _PropertyRule(
        lambda name: name == AVRO_CODEC, lambda text: text.lower() in AVRO_CODECS, EXPECTED_AVRO_CODEC
    ),
    _PropertyRule(
        lambda name: name == PARQUET_CODEC,
        lambda text: text.lower() in (*PARQUET_CODECS, UNCOMPRESSED),
        EXPECTED_PARQUET_CODEC,
    ),
    _PropertyRule(
        lambda name: name == PAGE_VERSION, lambda text: text in PAGE_VERSIONS, EXPECTED_PAGE_VERSION
    ),
    _PropertyRule(lambda name: name in PATHS, is_absolute_path, EXPECTED_PATH),
    _PropertyRule(lambda name: name in FLAGS, lambda text: text.lower() in _BOOLEANS, "true or false"),
)
