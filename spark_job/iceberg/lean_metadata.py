"""Makes PyIceberg take over what does not change in a table's metadata, instead of making it anew.

A table has a hundred snapshots or a thousand, and a commit adds one of them. PyIceberg checks each of them whenever it
loads the table, and copies each of them deeply whenever it commits: most of a small commit's time, which grows with
the history.
"""

from __future__ import annotations

import json
import re
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

# Quotes inside of a text are escaped, so these are keys, wherever they are found.
_UUID = re.compile(r'"table-uuid"\s*:\s*"([^"\\]+)"')
_SNAPSHOTS = re.compile(r'"snapshots"\s*:\s*\[')
_FIRST, _NEXT, _END, _AFTER_ITEM = map(re.compile, (r"\s*", r"\s*,\s*", r"\s*\]", r"\s*[,\]]"))

M = TypeVar("M", bound=BaseModel)

_decode = json.JSONDecoder().raw_decode
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
        start, end, snapshots = _read_snapshots(data)
        document: dict[str, Any] = from_json(data[:start] + data[end:], cache_strings="keys")
        document["snapshots"] = list(snapshots)
        document["schemas"] = [_schemas.get(one) for one in document["schemas"]]
        return TableMetadataWrapper.model_validate(document).root
    except (ValueError, LookupError, TypeError, RecursionError):
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


class _History:
    """The snapshots of a table as they were last read, and their text: what comes after it is new."""

    def __init__(self) -> None:
        self._known: tuple[str, tuple[Snapshot, ...]] = "", ()

    def read(self, data: str, start: int) -> tuple[int, tuple[Snapshot, ...]]:
        """Where the items of the list that starts here end, and what they are."""
        text, known = self._known
        end = start + len(text)
        if not (text and data.startswith(text, start) and _AFTER_ITEM.match(data, end)):
            end, known = start, ()
        added: list[Snapshot] = []
        while not _END.match(data, end):
            before = (_NEXT if known or added else _FIRST).match(data, end)
            if before is None:
                raise ValueError("no list of snapshots")
            described, end = _decode(data, before.end())
            added.append(_snapshots.get(described))
        known = (*known, *added)
        self._known = data[start:end], known
        return end, known


@lru_cache(_MOST_TEXTS)
def _history_of(_table: str) -> _History:
    return _History()


def _read_snapshots(data: str) -> tuple[int, int, tuple[Snapshot, ...]]:
    """Where the items of the list of snapshots begin and end, and what they are."""
    (table,) = _UUID.findall(data)
    (head,) = _SNAPSHOTS.finditer(data)
    return head.end(), *_history_of(table).read(data, head.end())


_snapshots = _Known(Snapshot, itemgetter("snapshot-id"), _MOST_SNAPSHOTS)
_schemas = _Known(Schema, str, _MOST_SCHEMAS)
