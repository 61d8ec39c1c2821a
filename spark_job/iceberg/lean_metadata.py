"""Makes PyIceberg take over what does not change in a table's metadata, instead of making it anew.

A table has a hundred snapshots or a thousand, and a commit adds one of them. PyIceberg checks each of them whenever it
loads the table, and copies each of them deeply whenever it commits: most of a small commit's time, which grows with
the history.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import lru_cache
from operator import itemgetter
from threading import Lock
from typing import Any, Generic, TypeVar

from pydantic import BaseModel
from pydantic_core import from_json
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import (
    TableMetadata,
    TableMetadataUtil,
    TableMetadataV1,
    TableMetadataV2,
    TableMetadataV3,
    TableMetadataWrapper,
)
from pyiceberg.table.snapshots import Snapshot

_MOST_TEXTS = 16
_MOST_SNAPSHOTS = 5000
_MOST_SCHEMAS = 500

M = TypeVar("M", bound=BaseModel)

_parse_raw = TableMetadataUtil.parse_raw


def install() -> None:
    """For all catalogs of this process. What is loaded and committed stays the same."""
    TableMetadataUtil.parse_raw = staticmethod(_parse)  # type: ignore[method-assign]
    for kind in (TableMetadataV1, TableMetadataV2, TableMetadataV3):
        kind.__deepcopy__ = _copy  # type: ignore[method-assign, assignment]


def _copy(metadata: M, _memo: object = None) -> M:
    """Lists and maps are copied; what is in them never changes."""
    held = ((name, value) for name, value in metadata if isinstance(value, (list, dict)))
    return metadata.model_copy(update={name: value.copy() for name, value in held})


@lru_cache(_MOST_TEXTS)
def _parse(data: str) -> TableMetadata:
    """As PyIceberg does it; whatever is odd is left to PyIceberg itself."""
    try:
        document: dict[str, Any] = from_json(data, cache_strings="keys")
        document["snapshots"] = [_snapshots.get(one) for one in document["snapshots"]]
        document["schemas"] = [_schemas.get(one) for one in document["schemas"]]
        return TableMetadataWrapper.model_validate(document).root
    except (ValueError, LookupError, TypeError):
        return _parse_raw(data)


class _Known(Generic[M]):
    """Parts that were seen before. The same name is not enough: all else must be the same as well."""

    def __init__(self, kind: type[M], name: Callable[[dict[str, Any]], Hashable], most: int) -> None:
        self._kind, self._name, self._most = kind, name, most
        self._seen: OrderedDict[Hashable, tuple[dict[str, Any], M]] = OrderedDict()
        self._lock = Lock()

    def get(self, document: dict[str, Any]) -> M:
        """What a part of the metadata describes."""
        key = self._name(document)
        seen = self._seen.get(key)
        if seen is not None and seen[0] == document:
            return seen[1]
        made = self._kind.model_validate(document)
        with self._lock:
            self._seen[key] = document, made
            while len(self._seen) > self._most:
                self._seen.popitem(last=False)
        return made


_snapshots = _Known(Snapshot, itemgetter("snapshot-id"), _MOST_SNAPSHOTS)
_schemas = _Known(Schema, str, _MOST_SCHEMAS)
