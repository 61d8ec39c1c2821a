"""Object locations: store, bucket and key, regardless of how the address is written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import unquote_plus

from trigger.sources.event_json import is_plain
from trigger.sources.refusal import EventRefused, RefusalReason

METADATA_SUFFIX = ".metadata.json"
_MAX_KEY_BYTES = 1024

# Schemes of the same store are equal. http is not listed: some catalogs return heads that no object store holds.
_STORES = {
    "s3": "s3", "s3a": "s3", "s3n": "s3", "gs": "gs", "abfs": "abfs", "abfss": "abfs",
    "wasb": "wasb", "wasbs": "wasb", "hdfs": "hdfs", "oss": "oss", "file": "file",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ObjectLocation:
    """An object, or a folder (a key without trailing slash)."""

    store: str
    bucket: str
    key: str

    @property
    def is_metadata(self) -> bool:
        """Whether the object is a table metadata file. Only these represent a commit."""
        return self.key.endswith(METADATA_SUFFIX)

    def folders(self) -> Iterator[ObjectLocation]:
        """Yield the folders that contain the object, innermost first."""
        key = self.key
        while "/" in key:
            key = key.rpartition("/")[0]
            yield ObjectLocation(self.store, self.bucket, key)


def parse_location(address: str) -> ObjectLocation | None:
    """Return the location of `s3://bucket/key` and similar; None if it is not an object store's address."""
    scheme, separator, path = address.partition("://")
    if not separator:
        is_file = address.startswith(("/", "file:/"))
        return ObjectLocation("file", "", address.removeprefix("file:")) if is_file else None
    store = _STORES.get(scheme.lower())
    if store is None:
        return None
    bucket, _, key = path.partition("/")
    return ObjectLocation(store, bucket, f"/{key}" if store == "file" else key)


def decode_key(encoded: str) -> str:
    """Return the key of an S3 notification, decoded exactly once."""
    try:
        return unquote_plus(encoded, errors="strict")
    except ValueError:
        raise EventRefused(RefusalReason.UNSAFE_KEY, "the object's key is not UTF-8") from None


def check_location(store: str, bucket: str, key: str) -> ObjectLocation:
    """Return the location of an event's object. Raise `EventRefused` if its key is ambiguous."""
    if not key or not is_plain(key) or not is_plain(bucket):
        raise EventRefused(RefusalReason.UNSAFE_KEY, "the object's key is empty or has control characters")
    if len(key.encode()) > _MAX_KEY_BYTES:
        raise EventRefused(
            RefusalReason.UNSAFE_KEY, f"the object's key is longer than {_MAX_KEY_BYTES} bytes"
        )
    if {"..", "."} & set(key.split("/")):
        raise EventRefused(RefusalReason.UNSAFE_KEY, "the object's key has `..` or `.` in its path")
    return ObjectLocation(store, bucket, key)
