"""Where an object is: store, bucket and key, whichever way its address is written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import unquote_plus

from trigger.sources.refused import Reason, Refused
from trigger.sources.shape import is_plain

METADATA_SUFFIX = ".metadata.json"
_MOST_KEY_BYTES = 1024

# Schemes of one store are one store. An address of the web is none: some catalogs give heads that no store holds.
_STORES = {
    "s3": "s3", "s3a": "s3", "s3n": "s3", "gs": "gs", "abfs": "abfs", "abfss": "abfs",
    "wasb": "wasb", "wasbs": "wasb", "hdfs": "hdfs", "oss": "oss", "file": "file",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Place:
    """An object, or a folder (its key without the last slash)."""

    store: str
    bucket: str
    key: str

    @property
    def is_metadata(self) -> bool:
        """The object is a table's metadata: nothing else stands for a commit."""
        return self.key.endswith(METADATA_SUFFIX)

    def folders(self) -> Iterator[Place]:
        """The folders around an object, the innermost first."""
        key = self.key
        while "/" in key:
            key = key.rpartition("/")[0]
            yield Place(self.store, self.bucket, key)


def parse_place(address: str) -> Place | None:
    """`s3://bucket/key` and the like; None for an address that is none of an object store."""
    scheme, found, rest = address.partition("://")
    if not found:
        return (
            Place("file", "", address.removeprefix("file:")) if address.startswith(("/", "file:/")) else None
        )
    store = _STORES.get(scheme.lower())
    if store is None:
        return None
    bucket, _, key = rest.partition("/")
    return Place(store, bucket, f"/{key}" if store == "file" else key)


def decode_key(written: str) -> str:
    """The key in a notification of S3, decoded once and no further."""
    try:
        return unquote_plus(written, errors="strict")
    except ValueError:
        raise Refused(Reason.UNSAFE_KEY, "the key of the object is not UTF-8") from None


def safe_place(store: str, bucket: str, key: str) -> Place:
    """The place of an object that an event names; `Refused` where its key may mean another one."""
    if not key or not is_plain(key) or not is_plain(bucket):
        raise Refused(Reason.UNSAFE_KEY, "the key of the object is empty, or has control characters")
    if len(key.encode()) > _MOST_KEY_BYTES:
        raise Refused(Reason.UNSAFE_KEY, f"the key of the object is longer than {_MOST_KEY_BYTES} bytes")
    if {"..", "."} & set(key.split("/")):
        raise Refused(Reason.UNSAFE_KEY, "the key of the object has `..` or `.` in its path")
    return Place(store, bucket, key)
