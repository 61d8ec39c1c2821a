"""The Iceberg properties that icemirror goes by, and what their values may be; known without a table."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

TARGET_FILE_BYTES = "write.target-file-size-bytes"
ROW_GROUP_ROWS = "write.parquet.row-group-limit"
ROW_GROUP_BYTES = "write.parquet.row-group-size-bytes"
PAGE_BYTES = "write.parquet.page-size-bytes"
PAGE_ROWS = "write.parquet.page-row-limit"
DICTIONARY_BYTES = "write.parquet.dict-size-bytes"
BLOOM_FILTER_BYTES = "write.parquet.bloom-filter-max-bytes"
BLOOM_FILTER_FPP = "write.parquet.bloom-filter-fpp.column."
BLOOM_FILTER_NDV = "write.parquet.bloom-filter-ndv.column."
MERGE_FROM_MANIFESTS = "commit.manifest.min-count-to-merge"
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
    MERGE_FROM_MANIFESTS: 30,
    TARGET_MANIFEST_BYTES: 8 << 20,
    MIN_SNAPSHOTS: 20,
    MAX_SNAPSHOT_AGE_MS: 24 * 3_600_000,
    MAX_SNAPSHOTS: 100,
    OLD_METADATA_FILES: 20,
}
"""Whole numbers above zero, with their defaults."""

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
"""As Iceberg calls them, and as Avro does."""
UNCOMPRESSED = "uncompressed"
PARQUET_CODECS = ("zstd", "gzip", "snappy", "lz4", "lz4_raw", "brotli")
LEVELS: Mapping[str, tuple[int, int]] = {"zstd": (-(1 << 17), 22), "gzip": (1, 9), "brotli": (0, 11)}
"""The least and the greatest level of the codecs that have some; Iceberg Java takes no notice of it for the others."""
PAGE_VERSIONS = ("v1", "v2")

ABOVE_ZERO = "a whole number above zero"
A_CHANCE = "a number between 0 and 1"
A_PATH = "a whole path, such as s3://bucket/folder or file:///folder"
A_PARQUET_CODEC = f"one of {', '.join((*PARQUET_CODECS, UNCOMPRESSED))}"
A_PAGE_VERSION = "v1 or v2"
AN_AVRO_CODEC = "gzip, zstd, uncompressed, or snappy with python-snappy installed"

_OURS = "icemirror."
_YES_OR_NO = frozenset(("y", "yes", "t", "true", "on", "1", "n", "no", "f", "false", "off", "0"))
_WHOLE_PATH = re.compile(r"(?!file://[^/])([a-zA-Z][a-zA-Z0-9+.-]*:/|/)")  # what follows file:// is a host


class Wrong(NamedTuple):
    """A property that cannot be followed, and what its value should be."""

    name: str
    expected: str


def wrong_properties(properties: Mapping[str, str]) -> Iterator[Wrong]:
    """Every property with a value that a merge could not go by; an empty one stands for the default."""
    for name, text in properties.items():
        if name == PARQUET_LEVEL and text:
            expected = wrong_level((properties.get(PARQUET_CODEC) or "zstd").lower(), text)
        else:
            expected = next((what for rule, fits, what in _RULES if rule(name) and not fits(text)), None)
        if text and expected is not None:
            yield Wrong(name, expected)


def whose_else(properties: Mapping[str, str], format_version: int) -> Iterator[tuple[str, str]]:
    """Properties that are not for `table_properties` to say, and why."""
    for name, text in properties.items():
        if name == FORMAT_VERSION and text.strip() != str(format_version):
            yield name, f"is {text!r}, but format_version is {format_version}: say it there"
        elif name.startswith(_OURS) and name != MAX_SNAPSHOTS:
            near = difflib.get_close_matches(name, [MAX_SNAPSHOTS], n=1, cutoff=0.8)
            hint = f"; did you mean {MAX_SNAPSHOTS}?" if near else ": remove it"
            yield name, f"icemirror keeps this property itself{hint}"


def is_number(text: str) -> bool:
    """A whole number above zero."""
    try:
        return int(text) > 0
    except ValueError:
        return False


def is_whole_path(text: str) -> bool:
    """A path that does not begin in whatever folder a job happens to run in, as `abc` and `file://abc` do."""
    return _WHOLE_PATH.match(text) is not None


def wrong_level(codec: str, text: str) -> str | None:
    """What the level should be; None if it is right, or the codec has none."""
    if codec not in LEVELS:
        return None
    least, most = LEVELS[codec]
    if _is_whole(text) and least <= int(text) <= most:
        return None
    return f"a level of {codec}, {least} to {most}"


def is_chance(text: str) -> bool:
    """A number between 0 and 1."""
    try:
        chance = float(text)
    except ValueError:
        return False
    return math.isfinite(chance) and 0 < chance < 1


def _is_whole(text: str) -> bool:
    return re.fullmatch(r"\s*[+-]?\d+\s*", text, re.ASCII) is not None


_Test = Callable[[str], bool]

# Which properties, what their values must be, and that in words.
_RULES: tuple[tuple[_Test, _Test, str], ...] = (
    (lambda name: name in NUMBERS or name.startswith(BLOOM_FILTER_NDV), is_number, ABOVE_ZERO),
    (lambda name: name.startswith(BLOOM_FILTER_FPP), is_chance, A_CHANCE),
    (lambda name: name == METRICS_COLUMNS, _is_whole, "a whole number"),
    (lambda name: name == AVRO_CODEC, lambda text: text.lower() in AVRO_CODECS, AN_AVRO_CODEC),
    (
        lambda name: name == PARQUET_CODEC,
        lambda text: text.lower() in (*PARQUET_CODECS, UNCOMPRESSED),
        A_PARQUET_CODEC,
    ),
    (lambda name: name == PAGE_VERSION, lambda text: text in PAGE_VERSIONS, A_PAGE_VERSION),
    (lambda name: name in PATHS, is_whole_path, A_PATH),
    (lambda name: name in FLAGS, lambda text: text.lower() in _YES_OR_NO, "true or false"),
)
