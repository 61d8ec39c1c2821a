"""Planted defects that the campaign must detect; each replaces a function of the product."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from unittest.mock import patch
from urllib.parse import unquote_plus

from trigger.listeners.notify import NotifyHandler
from trigger.sources import aws_events
from trigger.sources.hints import LocationHint, NameHint
from trigger.sources.object_location import ObjectLocation
from trigger.sources.refusal import Refusal
from trigger.tables.table_lookup import TableLookup


@contextmanager
def _decodes_key_twice() -> Iterator[None]:
    with patch.object(aws_events, "decode_key", lambda key: unquote_plus(unquote_plus(key))):
        yield


@contextmanager
def _compares_prefix_as_text() -> Iterator[None]:
    def find(self: TableLookup, location: ObjectLocation) -> frozenset[str] | Refusal:
        matches = [names for folder, names in self.by_folder.items() if location.key.startswith(folder.key)]
        registered = (location.store, location.bucket) in self.buckets
        return matches[0] if matches and registered else original(self, location)

    original = TableLookup._find_by_location
    with patch.object(TableLookup, "_find_by_location", find):
        yield


@contextmanager
def _compares_last_level_only() -> Iterator[None]:
    def find(self: TableLookup, hint: LocationHint | NameHint) -> frozenset[str] | Refusal:
        if isinstance(hint, NameHint):
            for name, tables in self.by_changelog.items():
                if name[-1] == hint.levels[-1]:
                    return tables
        return original(self, hint)

    original = TableLookup.find
    with patch.object(TableLookup, "find", find):
        yield


@contextmanager
def _ignores_bucket() -> Iterator[None]:
    def find(self: TableLookup, location: ObjectLocation) -> frozenset[str] | Refusal:
        parent = location.key.rpartition("/")[0]
        matches = [names for folder, names in self.by_folder.items() if parent == folder.key]
        return matches[0] if matches else original(self, location)

    original = TableLookup._find_by_location
    with patch.object(TableLookup, "_find_by_location", find):
        yield


@contextmanager
def _ignores_token() -> Iterator[None]:
    with patch.object(NotifyHandler, "_is_allowed", lambda *_: True):
        yield


@contextmanager
def _decodes_body_before_bounds() -> Iterator[None]:
    with patch("trigger.sources.event_json._depth", lambda body: body.decode().count("[")):
        yield


PLANTED: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "decodes the key twice": _decodes_key_twice,
    "compares the prefix as text": _compares_prefix_as_text,
    "compares the last level only": _compares_last_level_only,
    "ignores the bucket": _ignores_bucket,
    "ignores the token": _ignores_token,
    "decodes the body before the bounds": _decodes_body_before_bounds,
}
