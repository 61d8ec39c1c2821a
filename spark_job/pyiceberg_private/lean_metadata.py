"""Patches PyIceberg to reuse the unchanged parts of a table's metadata.

A commit adds one snapshot to a history of hundreds. PyIceberg validates every snapshot at each load, and copies and
serializes every snapshot at each commit. That is most of a small commit's time, and it grows with the history.
Upstream: apache/iceberg-python#2673, #3162, #3784. Decision record: docs/decisions/0022-lean-table-metadata.md.
"""

from __future__ import annotations

import json
import re
from collections import OrderedDict, deque
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
from pyiceberg.table.snapshots import Snapshot, SnapshotLogEntry
from pyiceberg.typedef import IcebergBaseModel

_MAX_TEXTS = 16
_MAX_SNAPSHOTS = 5000
_MAX_SCHEMAS = 500

_NO_SNAPSHOTS = '"snapshots":[]'
# Quotes in a JSON string are escaped, so a match is always a key.
_UUID = re.compile(r'"table-uuid"\s*:\s*"([^"\\]+)"')
_LISTS = {name: re.compile(rf'"{name}"\s*:\s*\[') for name in ("snapshots", "snapshot-log")}
_FIRST, _NEXT, _END, _AFTER_ITEM = map(re.compile, (r"\s*", r"\s*,\s*", r"\s*\]", r"\s*[,\]]"))

M = TypeVar("M", bound=BaseModel)

_last: deque[tuple[str, TableMetadata]] = deque(maxlen=_MAX_TEXTS)
_decode = json.JSONDecoder().raw_decode
_parse_raw = TableMetadataUtil.parse_raw


def install() -> None:
    """Patch PyIceberg for all catalogs of this process. Results are the same as without the patch."""
    TableMetadataUtil.parse_raw = staticmethod(_parse)  # type: ignore[method-assign]
    for kind in (TableMetadataV1, TableMetadataV2, TableMetadataV3):
        kind.__deepcopy__ = _copy  # type: ignore[method-assign, assignment]
        kind.snapshot_by_id = _snapshot_by_id  # type: ignore[method-assign, assignment]
    # v3: see `manifest_files.enable_v3_metadata`. v1: snapshots are serialized differently on their own.
    TableMetadataV2.model_dump_json = dump_json  # type: ignore[method-assign, assignment]


def _copy(metadata: M, _memo: object = None) -> M:
    """Copy lists and maps, but not their elements, which are immutable."""
    held = ((name, value) for name, value in metadata if isinstance(value, (list, dict)))
    return metadata.model_copy(update={name: value.copy() for name, value in held})


def _snapshot_by_id(metadata: TableMetadata, snapshot_id: int) -> Snapshot | None:
    """Search from the newest snapshot: callers mostly want one of the last."""
    return next(
        (snapshot for snapshot in reversed(metadata.snapshots) if snapshot.snapshot_id == snapshot_id), None
    )


def dump_json(metadata: TableMetadata, **options: Any) -> str:  # noqa: ANN401 (pydantic's own)
    """Serialize metadata as PyIceberg does, but reuse the text of snapshots that were serialized before."""
    if options not in ({}, {"exclude_none": True}):
        return IcebergBaseModel.model_dump_json(metadata, **options)
    rest = IcebergBaseModel.model_dump_json(metadata.model_copy(update={"snapshots": []}))
    if rest.count(_NO_SNAPSHOTS) != 1:
        return IcebergBaseModel.model_dump_json(metadata)
    return rest.replace(_NO_SNAPSHOTS, f'"snapshots":[{",".join(map(_texts.get, metadata.snapshots))}]')


def _parse(data: str) -> TableMetadata:
    """Parse metadata as PyIceberg does. The last texts are cached."""
    # Compared, not hashed: texts mostly differ in length, or in their first bytes.
    for text, known in _last:
        if text == data:
            return known
    metadata = _build(data)
    _last.appendleft((data, metadata))
    return metadata


def _build(data: str) -> TableMetadata:
    """Parse metadata with reuse. PyIceberg parses everything unusual."""
    try:
        rest, lists = _read_lists(data)
        document: dict[str, Any] = from_json(rest, cache_strings="keys")
        document |= lists
        document["schemas"] = [_schemas.get(schema) for schema in document["schemas"]]
        return TableMetadataWrapper.model_validate(document).root
    except (ValueError, LookupError, TypeError, RecursionError):
        return _parse_raw(data)


class _KnownParts(Generic[M]):
    """Caches validated parts by name. A part is reused only if the whole document is equal."""

    def __init__(self, kind: type[M], name: Callable[[dict[str, Any]], Hashable], most: int) -> None:
        self._kind, self._name, self._most = kind, name, most
        self._seen: OrderedDict[Hashable, tuple[dict[str, Any], M]] = OrderedDict()
        self._lock = Lock()

    def get(self, document: dict[str, Any]) -> M:
        """Return the model of a part of the metadata."""
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


class _GrowingList(Generic[M]):
    """The items of a list as last read, with their text. If a new text begins with it, only the rest is parsed.

    last time   [ item, item, item ]
    now         [ item, item, item, item ]
                  └── known text ──┘└ new ┘
    """

    def __init__(self, make: Callable[[dict[str, Any]], M]) -> None:
        self._make = make
        self._known: tuple[str, tuple[M, ...]] = "", ()

    def read(self, data: str, start: int) -> tuple[int, tuple[M, ...]]:
        """Return the end of the list that starts here, and its items."""
        text, known = self._known
        end = start + len(text)
        if not (text and data.startswith(text, start) and _AFTER_ITEM.match(data, end)):
            end, known = start, ()
        added: list[M] = []
        while not _END.match(data, end):
            before = (_NEXT if known or added else _FIRST).match(data, end)
            if before is None:
                raise ValueError("no list")
            described, end = _decode(data, before.end())
            added.append(self._make(described))
        known = (*known, *added)
        self._known = data[start:end], known
        return end, known


@lru_cache(_MAX_TEXTS)
def _history_of(_table: str) -> dict[str, _GrowingList[Any]]:  # Any: two types of items
    return {
        "snapshots": _GrowingList(lambda snapshot: _snapshots.get(snapshot)),
        "snapshot-log": _GrowingList(SnapshotLogEntry.model_validate),
    }


def _read_lists(data: str) -> tuple[str, dict[str, list[Any]]]:
    """Cut the lists that grow with every commit out of the metadata. Return the rest, and the lists.

    The rest is checked to contain each key once; the lists themselves were parsed. A wrong uuid does no harm: it only
    selects the text that a list is compared with.
    """
    table = _UUID.search(data)
    lists: dict[str, list[Any]] = {}
    for name, known in _history_of(table[1] if table else "").items():
        if head := _LISTS[name].search(data):
            end, items = known.read(data, head.end())
            data, lists[name] = data[: head.end()] + data[end:], list(items)
            (_only,) = _LISTS[name].findall(data)
    return data, lists


class _SnapshotTexts:
    """Caches the JSON of snapshots. Snapshots are immutable, so the same object has the same text."""

    def __init__(self) -> None:
        self._made: dict[int, tuple[Snapshot, str]] = {}

    def get(self, snapshot: Snapshot) -> str:
        """Return the JSON of a snapshot."""
        made = self._made.get(snapshot.snapshot_id)
        if made is None or made[0] is not snapshot:
            if len(self._made) >= _MAX_SNAPSHOTS:
                self._made.clear()
            made = self._made[snapshot.snapshot_id] = snapshot, snapshot.model_dump_json()
        return made[1]


_texts = _SnapshotTexts()
_snapshots = _KnownParts(Snapshot, itemgetter("snapshot-id"), _MAX_SNAPSHOTS)
_schemas = _KnownParts(Schema, str, _MAX_SCHEMAS)
