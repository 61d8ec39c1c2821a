"""Mistakes that the campaign must find, each as what stands in the place of the right code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from unittest.mock import patch
from urllib.parse import unquote_plus

from trigger import directory
from trigger.listeners.notify import Notify
from trigger.sources import place, s3_notification
from trigger.sources.hints import LocationHint, NameHint


@contextmanager
def _decodes_twice() -> Iterator[None]:
    with patch.object(s3_notification, "decode_key", lambda key: unquote_plus(unquote_plus(key))):
        yield


@contextmanager
def _prefix_as_text() -> Iterator[None]:
    def at(self: directory.Directory, found: place.Place) -> frozenset[str]:
        near = [names for folder, names in self.by_folder.items() if found.key.startswith(folder.key)]
        return near[0] if near and (found.store, found.bucket) in self.buckets else real(self, found)

    real = directory.Directory._at
    with patch.object(directory.Directory, "_at", at):
        yield


@contextmanager
def _last_level_decides() -> Iterator[None]:
    def find(self: directory.Directory, hint: LocationHint | NameHint) -> frozenset[str]:
        if isinstance(hint, NameHint):
            for name, tables in self.by_name.items():
                if name[-1] == hint.levels[-1]:
                    return tables
        return real(self, hint)

    real = directory.Directory.find
    with patch.object(directory.Directory, "find", find):
        yield


@contextmanager
def _any_bucket() -> Iterator[None]:
    def at(self: directory.Directory, found: place.Place) -> frozenset[str]:
        near = [
            names for folder, names in self.by_folder.items() if found.key.rpartition("/")[0] == folder.key
        ]
        return near[0] if near else real(self, found)

    real = directory.Directory._at
    with patch.object(directory.Directory, "_at", at):
        yield


@contextmanager
def _no_token() -> Iterator[None]:
    with patch.object(Notify, "_may", lambda *_: True):
        yield


@contextmanager
def _unescaped_text() -> Iterator[None]:
    with patch("trigger.sources.body._depth", lambda body: body.decode().count("[")):
        yield


BUGS: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "decodes twice": _decodes_twice,
    "prefix as text": _prefix_as_text,
    "last level decides": _last_level_decides,
    "any bucket": _any_bucket,
    "no token": _no_token,
    "not all bytes are text": _unescaped_text,
}
