"""Makes PyIceberg take over what does not change in a table's metadata, instead of making it anew.

A table has a hundred snapshots or a thousand, and a commit adds one of them. PyIceberg checks each of them whenever it
loads the table, and copies each of them deeply and writes it anew whenever it commits: most of a small commit's time,
which grows with the history.
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

_MOST_TEXTS = 16
_MOST_SNAPSHOTS = 5000
_MOST_SCHEMAS = 500

_NO_SNAPSHOTS = '"snapshots":[]'
# Quotes inside of a text are escaped, so these are keys, wherever they are found.
_UUID = re.compile(r'"table-uuid"\s*:\s*"([^"\\]+)"')
_LISTS = {name: re.compile(rf'"{name}"\s*:\s*\[') for name in ("snapshots", "snapshot-log")}
_FIRST, _NEXT, _END, _AFTER_ITEM = map(re.compile, (r"\s*", r"\s*,\s*", r"\s*\]", r"\s*[,\]]"))

M = TypeVar("M", bound=BaseModel)

_last: deque[tuple[str, TableMetadata]] = deque(maxlen=_MOST_TEXTS)
_decode = json.JSONDecoder().raw_decode
_parse_raw = TableMetadataUtil.parse_raw


def install() -> None:
    """For all catalogs of this process. What is loaded and committed stays the same."""
    TableMetadataUtil.parse_raw = staticmethod(_parse)  # type: ignore[method-assign]
    for kind in (TableMetadataV1, TableMetadataV2, TableMetadataV3):
        kind.__deepcopy__ = _copy  # type: ignore[method-assign, assignment]
        kind.snapshot_by_id = _snapshot_by_id  # type: ignore[method-assign, assignment]
    # Those of v3 are written by way of `allow_v3_metadata`; those of v1 write snapshots otherwise than alone.
    TableMetadataV2.model_dump_json = dump_json  # type: ignore[method-assign, assignment]


def _copy(metadata: M, _memo: object = None) -> M:
    """Lists and maps are copied; what is in them never changes."""
    held = ((name, value) for name, value in metadata if isinstance(value, (list, dict)))
    return metadata.model_copy(update={name: value.copy() for name, value in held})


def _snapshot_by_id(metadata: TableMetadata, snapshot_id: int) -> Snapshot | None:
    """From the newest back, as it is mostly one of those."""
    return next((one for one in reversed(metadata.snapshots) if one.snapshot_id == snapshot_id), None)


def dump_json(metadata: TableMetadata, **options: Any) -> str:  # noqa: ANN401 (pydantic's own)
    """As PyIceberg does it; the text of a snapshot that was written before is taken over."""
    if options not in ({}, {"exclude_none": True}):
        return IcebergBaseModel.model_dump_json(metadata, **options)
    rest = IcebergBaseModel.model_dump_json(metadata.model_copy(update={"snapshots": []}))
    if rest.count(_NO_SNAPSHOTS) != 1:
        return IcebergBaseModel.model_dump_json(metadata)
    return rest.replace(_NO_SNAPSHOTS, f'"snapshots":[{",".join(map(_texts.get, metadata.snapshots))}]')


def _parse(data: str) -> TableMetadata:
    """As PyIceberg does it, once for each of the last texts."""
    # Compared, not hashed: mostly their lengths differ, or what they begin with.
    for text, known in _last:
        if text == data:
            return known
    metadata = _make(data)
    _last.appendleft((data, metadata))
    return metadata


def _make(data: str) -> TableMetadata:
    """What the text describes; whatever is odd is left to PyIceberg itself."""
    try:
        rest, lists = _read_lists(data)
        document: dict[str, Any] = from_json(rest, cache_strings="keys")
        document |= lists
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


class _Growing(Generic[M]):
    """The items of a list as they were last read, and their text: what comes after it is new."""

    def __init__(self, make: Callable[[dict[str, Any]], M]) -> None:
        self._make = make
        self._known: tuple[str, tuple[M, ...]] = "", ()

    def read(self, data: str, start: int) -> tuple[int, tuple[M, ...]]:
        """Where the items of the list that starts here end, and what they are."""
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


@lru_cache(_MOST_TEXTS)
def _history_of(_table: str) -> dict[str, _Growing[Any]]:  # Any: of items of two kinds
    return {
        "snapshots": _Growing(lambda one: _snapshots.get(one)),
        "snapshot-log": _Growing(SnapshotLogEntry.model_validate),
    }


def _read_lists(data: str) -> tuple[str, dict[str, list[Any]]]:
    """What grows with every commit, and the metadata without it.

    That its key is the only one of its name is seen by the rest: what a list holds was read as such, and is most of it.
    A uuid of something else does no harm: it only names whose text the list is compared with.
    """
    table = _UUID.search(data)
    lists: dict[str, list[Any]] = {}
    for name, known in _history_of(table[1] if table else "").items():
        if head := _LISTS[name].search(data):
            end, items = known.read(data, head.end())
            data, lists[name] = data[: head.end()] + data[end:], list(items)
            (_only,) = _LISTS[name].findall(data)
    return data, lists


class _Texts:
    """Snapshots as they were last written. None changes: that it is the very same object is enough."""

    def __init__(self) -> None:
        self._made: dict[int, tuple[Snapshot, str]] = {}

    def get(self, snapshot: Snapshot) -> str:
        """The text of a snapshot."""
        made = self._made.get(snapshot.snapshot_id)
        if made is None or made[0] is not snapshot:
            if len(self._made) >= _MOST_SNAPSHOTS:
                self._made.clear()
            made = self._made[snapshot.snapshot_id] = snapshot, snapshot.model_dump_json()
        return made[1]


_texts = _Texts()
_snapshots = _Known(Snapshot, itemgetter("snapshot-id"), _MOST_SNAPSHOTS)
_schemas = _Known(Schema, str, _MOST_SCHEMAS)
