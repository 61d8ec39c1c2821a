"""Values among a table's properties, as a person wrote them."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec

from pyiceberg.avro.codecs import AvroCompressionCodec

from icemirror.errors import Invalid

TARGET_FILE_BYTES = "write.target-file-size-bytes"
ROW_GROUP_ROWS = "write.parquet.row-group-limit"
ROW_GROUP_BYTES = "write.parquet.row-group-size-bytes"
PAGE_BYTES = "write.parquet.page-size-bytes"
PAGE_ROWS = "write.parquet.page-row-limit"
DICTIONARY_BYTES = "write.parquet.dict-size-bytes"
BLOOM_FILTER_BYTES = "write.parquet.bloom-filter-max-bytes"
MERGE_FROM_MANIFESTS = "commit.manifest.min-count-to-merge"
TARGET_MANIFEST_BYTES = "commit.manifest.target-size-bytes"
MIN_SNAPSHOTS = "history.expire.min-snapshots-to-keep"
MAX_SNAPSHOT_AGE_MS = "history.expire.max-snapshot-age-ms"
MAX_SNAPSHOTS = "icemirror.max-snapshots"
AVRO_CODEC = "write.avro.compression-codec"

_DEFAULTS = {
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
}

# As Iceberg calls them, and as Avro does.
_AVRO_CODECS: dict[str, AvroCompressionCodec] = {
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


def read_number(properties: Mapping[str, str], name: str) -> int:
    """The value of a property, or its default; anything but a number above zero is refused."""
    text = properties.get(name)
    if not text:
        return _DEFAULTS[name]
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise refuse(name, text, "a whole number above zero")
    return number


def read_flag(properties: Mapping[str, str], name: str, default: bool) -> bool:
    """A property that is true or false; as for Iceberg Java, whatever is not true is false."""
    text = properties.get(name)
    return default if text is None else text.lower() == "true"


def read_avro_codec(properties: Mapping[str, str]) -> AvroCompressionCodec:
    """How manifests are packed, by Avro's name for it."""
    text = properties.get(AVRO_CODEC) or "gzip"
    codec = _AVRO_CODECS.get(text.lower())
    if codec is None or (codec == "snappy" and find_spec("snappy") is None):
        raise refuse(AVRO_CODEC, text, "gzip, zstd, uncompressed, or snappy with python-snappy installed")
    return codec


def refuse(name: str, text: str, expected: str) -> Invalid:
    """The error for a property that cannot be followed."""
    return Invalid(
        f"table property {name} is {text!r}, not {expected}. Correct it under table_properties, "
        "and in the mirror if it exists."
    )


def check_properties(properties: Mapping[str, str]) -> None:
    """Refuses properties that the first write would stumble over."""
    for name in _DEFAULTS:
        read_number(properties, name)
    read_avro_codec(properties)
