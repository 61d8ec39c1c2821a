"""Planted bugs that the campaign must find; each replaces a piece of the product with a wrong one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from unittest.mock import patch
from urllib.parse import unquote_plus

from trigger.listeners.notify import Notify
from trigger.sources import aws
from trigger.sources.hints import LocationHint, NameHint
from trigger.sources.object_location import ObjectLocation
from trigger.tables.table_lookup import TableLookup


@contextmanager
def _decodes_key_twice() -> Iterator[None]:
    with patch.object(aws, "decode_key", lambda key: unquote_plus(unquote_plus(key))):
        yield


@contextmanager
def _compares_prefix_as_text() -> Iterator[None]:
    def find(self: TableLookup, location: ObjectLocation) -> frozenset[str]:
        near = [names for folder, names in self.by_folder.items() if location.key.startswith(folder.key)]
        registered = (location.store, location.bucket) in self.buckets
        return near[0] if near and registered else right(self, location)

    right = TableLookup._find_by_location
    with patch.object(TableLookup, "_find_by_location", find):
        yield


@contextmanager
def _compares_last_level_only() -> Iterator[None]:
    def find(self: TableLookup, hint: LocationHint | NameHint) -> frozenset[str]:
        if isinstance(hint, NameHint):
            for name, tables in self.by_name.items():
                if name[-1] == hint.levels[-1]:
                    return tables
        return right(self, hint)

    right = TableLookup.find
    with patch.object(TableLookup, "find", find):
        yield


@contextmanager
def _ignores_bucket() -> Iterator[None]:
    def find(self: TableLookup, location: ObjectLocation) -> frozenset[str]:
        parent = location.key.rpartition("/")[0]
        near = [names for folder, names in self.by_folder.items() if parent == folder.key]
        return near[0] if near else right(self, location)

    right = TableLookup._find_by_location
    with patch.object(TableLookup, "_find_by_location", find):
        yield


@contextmanager
def _ignores_token() -> Iterator[None]:
    with patch.object(Notify, "_is_allowed", lambda *_: True):
        yield


@contextmanager
def _decodes_body_before_bounds() -> Iterator[None]:
    with patch("trigger.sources.event_json._depth", lambda body: body.decode().count("[")):
        yield


BUGS: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "decodes the key twice": _decodes_key_twice,
    "compares the prefix as text": _compares_prefix_as_text,
    "compares the last level only": _compares_last_level_only,
    "ignores the bucket": _ignores_bucket,
    "ignores the token": _ignores_token,
    "decodes the body before the bounds": _decodes_body_before_bounds,
}
