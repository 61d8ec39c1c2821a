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

_parsed_texts: deque[tuple[str, TableMetadata]] = deque(maxlen=_MAX_TEXTS)
_decode = json.JSONDecoder().raw_decode
_parse_raw = TableMetadataUtil.parse_raw


def install() -> None:
    """Patch PyIceberg for all catalogs of this process. Results are the same as without the patch."""
    TableMetadataUtil.parse_raw = staticmethod(_parse)  # type: ignore[method-assign]
    for metadata_class in (TableMetadataV1, TableMetadataV2, TableMetadataV3):
        metadata_class.__deepcopy__ = _copy  # type: ignore[method-assign, assignment]
        metadata_class.snapshot_by_id = _snapshot_by_id  # type: ignore[method-assign, assignment]
    # v3: see `manifest_files.enable_v3_metadata`. v1: snapshots are serialized differently on their own.
    TableMetadataV2.model_dump_json = dump_json  # type: ignore[method-assign, assignment]


def _copy(metadata: M, _memo: object = None) -> M:
    """Return a copy with new lists and maps, but the same elements, which are immutable."""
    containers = ((name, value) for name, value in metadata if isinstance(value, (list, dict)))
    return metadata.model_copy(update={name: value.copy() for name, value in containers})


def _snapshot_by_id(metadata: TableMetadata, snapshot_id: int) -> Snapshot | None:
    """Return a snapshot, searched from the newest one: callers mostly request one of the last."""
    return next(
        (snapshot for snapshot in reversed(metadata.snapshots) if snapshot.snapshot_id == snapshot_id), None
    )


def dump_json(metadata: TableMetadata, **options: Any) -> str:  # noqa: ANN401 (pydantic's own)
    """Return the same JSON as PyIceberg, with the text of snapshots that were serialized before."""
    if options not in ({}, {"exclude_none": True}):
        return IcebergBaseModel.model_dump_json(metadata, **options)
    text = IcebergBaseModel.model_dump_json(metadata.model_copy(update={"snapshots": []}))
    if text.count(_NO_SNAPSHOTS) != 1:
        return IcebergBaseModel.model_dump_json(metadata)
    return text.replace(
        _NO_SNAPSHOTS, f'"snapshots":[{",".join(map(_snapshot_texts.get, metadata.snapshots))}]'
    )


def _parse(data: str) -> TableMetadata:
    """Return the same metadata as PyIceberg's parser. The last texts are cached."""
    # Compared, not hashed: texts mostly differ in length, or in their first bytes.
    for text, metadata in _parsed_texts:
        if text == data:
            return metadata
    metadata = _parse_with_reuse(data)
    _parsed_texts.appendleft((data, metadata))
    return metadata


def _parse_with_reuse(data: str) -> TableMetadata:
    """Return the metadata, with models of earlier texts where they are equal. PyIceberg parses everything unusual."""
    try:
        shortened, lists = _read_lists(data)
        document: dict[str, Any] = from_json(shortened, cache_strings="keys")
        document |= lists
        document["schemas"] = [_schema_models.get(schema) for schema in document["schemas"]]
        return TableMetadataWrapper.model_validate(document).root
    except (ValueError, LookupError, TypeError, RecursionError):
        return _parse_raw(data)


class _ModelCache(Generic[M]):
    """Caches models of parts of the metadata. A model is reused only if its whole document is equal."""

    def __init__(
        self, model_class: type[M], identify: Callable[[dict[str, Any]], Hashable], max_models: int
    ) -> None:
        self._model_class, self._identify, self._max_models = model_class, identify, max_models
        self._models: OrderedDict[Hashable, tuple[dict[str, Any], M]] = OrderedDict()
        self._lock = Lock()

    def get(self, document: dict[str, Any]) -> M:
        """Return the model of a part of the metadata."""
        key = self._identify(document)
        cached = self._models.get(key)
        if cached is not None and cached[0] == document:
            return cached[1]
        model = self._model_class.model_validate(document)
        with self._lock:
            self._models[key] = document, model
            while len(self._models) > self._max_models:
                self._models.popitem(last=False)
        return model


class _GrowingList(Generic[M]):
    """The items of a list as last read, with their text. If a new text begins with it, only new items are parsed.

    last time   [ item, item, item ]
    now         [ item, item, item, item ]
                  └── last text ───┘└ new ┘
    """

    def __init__(self, parse_item: Callable[[dict[str, Any]], M]) -> None:
        self._parse_item = parse_item
        self._last_read: tuple[str, tuple[M, ...]] = "", ()

    def read(self, data: str, start: int) -> tuple[int, tuple[M, ...]]:
        """Return the end of the list that starts here, and its items."""
        text, items = self._last_read
        end = start + len(text)
        if not (text and data.startswith(text, start) and _AFTER_ITEM.match(data, end)):
            end, items = start, ()
        added: list[M] = []
        while not _END.match(data, end):
            separator = (_NEXT if items or added else _FIRST).match(data, end)
            if separator is None:
                raise ValueError("no list")
            item, end = _decode(data, separator.end())
            added.append(self._parse_item(item))
        items = (*items, *added)
        self._last_read = data[start:end], items
        return end, items


@lru_cache(_MAX_TEXTS)
def _growing_lists(_table: str) -> dict[str, _GrowingList[Any]]:  # Any: two types of items
    return {
        "snapshots": _GrowingList(lambda snapshot: _snapshot_models.get(snapshot)),
        "snapshot-log": _GrowingList(SnapshotLogEntry.model_validate),
    }


def _read_lists(data: str) -> tuple[str, dict[str, list[Any]]]:
    """Return the metadata without the lists that grow with every commit, and these lists.

    The shortened text is checked to contain each key once; the lists themselves were parsed. A wrong uuid does no
    harm: it only selects the text that a list is compared with.
    """
    uuid_match = _UUID.search(data)
    lists: dict[str, list[Any]] = {}
    for name, growing_list in _growing_lists(uuid_match[1] if uuid_match else "").items():
        if list_start := _LISTS[name].search(data):
            end, items = growing_list.read(data, list_start.end())
            data, lists[name] = data[: list_start.end()] + data[end:], list(items)
            if len(_LISTS[name].findall(data)) != 1:
                raise ValueError(f"the key {name} occurs twice")
    return data, lists


class _SnapshotTexts:
    """Caches the JSON of snapshots. Snapshots are immutable, so the same object has the same text."""

    def __init__(self) -> None:
        self._texts_by_id: dict[int, tuple[Snapshot, str]] = {}

    def get(self, snapshot: Snapshot) -> str:
        """Return the JSON of a snapshot."""
        cached = self._texts_by_id.get(snapshot.snapshot_id)
        if cached is None or cached[0] is not snapshot:
            if len(self._texts_by_id) >= _MAX_SNAPSHOTS:
                self._texts_by_id.clear()
            cached = self._texts_by_id[snapshot.snapshot_id] = snapshot, snapshot.model_dump_json()
        return cached[1]


_snapshot_texts = _SnapshotTexts()
_snapshot_models = _ModelCache(Snapshot, itemgetter("snapshot-id"), _MAX_SNAPSHOTS)
_schema_models = _ModelCache(Schema, str, _MAX_SCHEMAS)
