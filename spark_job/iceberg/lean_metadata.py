"""Makes PyIceberg take over what does not change in a table's metadata, instead of making it anew.

A table has a hundred snapshots or a thousand, and a commit adds one of them. PyIceberg checks each of them whenever it
loads the table, and copies each of them deeply whenever it commits: most of a small commit's time, which grows with
the history.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from functools import lru_cache
from threading import Lock
from typing import Any, TypeVar

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil, TableMetadataWrapper
from pyiceberg.table.snapshots import MetadataLogEntry, Snapshot, SnapshotLogEntry
from pyiceberg.table.sorting import SortOrder

_MOST_TEXTS = 16
_MOST_SNAPSHOTS = 5000

T = TypeVar("T")

_parse_raw = TableMetadataUtil.parse_raw


def install() -> None:
    """For all catalogs of this process. What is loaded and committed stays the same."""
    TableMetadataUtil.parse_raw = staticmethod(_parse)  # type: ignore[method-assign]
    for kind in (Snapshot, SnapshotLogEntry, MetadataLogEntry, Schema, PartitionSpec, SortOrder):
        kind.__deepcopy__ = _itself  # type: ignore[method-assign, assignment]


def _itself(value: T, _memo: object = None) -> T:
    """What never changes needs no copy."""
    return value


@lru_cache(_MOST_TEXTS)
def _parse(data: str) -> TableMetadata:
    """As PyIceberg does it; whatever is odd is left to PyIceberg itself."""
    try:
        document: dict[str, Any] = json.loads(data)
        document["snapshots"] = [_known.get(one) for one in document["snapshots"]]
        return TableMetadataWrapper.model_validate(document).root
    except (ValueError, LookupError, TypeError):
        return _parse_raw(data)


class _Snapshots:
    """Those that were seen before. The same id is not enough: all else must be the same as well."""

    def __init__(self) -> None:
        self._by_id: OrderedDict[int, tuple[dict[str, Any], Snapshot]] = OrderedDict()
        self._lock = Lock()

    def get(self, document: dict[str, Any]) -> Snapshot:
        """The snapshot that a part of the metadata describes."""
        number: int = document["snapshot-id"]
        seen = self._by_id.get(number)
        if seen is not None and seen[0] == document:
            return seen[1]
        snapshot = Snapshot.model_validate(document)
        with self._lock:
            self._by_id[number] = document, snapshot
            while len(self._by_id) > _MOST_SNAPSHOTS:
                self._by_id.popitem(last=False)
        return snapshot


_known = _Snapshots()
