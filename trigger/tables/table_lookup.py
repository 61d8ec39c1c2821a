"""Finds the registered tables that a hint belongs to. A table that is not registered is never found."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from trigger.sources.hints import LocationHint, NameHint
from trigger.sources.object_location import ObjectLocation, parse_location
from trigger.sources.refusal import EventRefused, RefusalReason

if TYPE_CHECKING:
    from icemirror.settings import TableSettings


@dataclass(frozen=True, slots=True)
class TableLookup:
    """Registered tables by changelog name, by mirror name, and by the folder of the changelog's metadata."""

    by_name: Mapping[tuple[str, ...], frozenset[str]] = field(default_factory=dict)
    by_mirror: Mapping[tuple[str, ...], frozenset[str]] = field(default_factory=dict)
    by_folder: Mapping[ObjectLocation, frozenset[str]] = field(default_factory=dict)
    buckets: frozenset[tuple[str, str]] = frozenset()

    @classmethod
    def build(cls, tables: Iterable[TableSettings], heads: Mapping[str, str]) -> Self:
        """Index these tables; `heads` are the known heads of their changelogs, by mirror.

        A changelog's folder is the folder of its current metadata file. A catalog may return an http address instead:
        then no object store holds the file, and the changelog has no folder.
        """
        by_name: dict[tuple[str, ...], set[str]] = defaultdict(set)
        by_mirror: dict[tuple[str, ...], set[str]] = defaultdict(set)
        by_folder: dict[ObjectLocation, set[str]] = defaultdict(set)
        for table in tables:
            by_name[table.changelog_id.parts].add(table.name)
            by_mirror[table.mirror_id.parts].add(table.name)
            head = parse_location(heads.get(table.name, ""))
            if head is not None and (folder := next(head.folders(), None)) is not None:
                by_folder[folder].add(table.name)
        return cls(
            {name: frozenset(tables) for name, tables in by_name.items()},
            {name: frozenset(tables) for name, tables in by_mirror.items()},
            {folder: frozenset(tables) for folder, tables in by_folder.items()},
            frozenset((folder.store, folder.bucket) for folder in by_folder),
        )

    def find(self, hint: LocationHint | NameHint) -> frozenset[str]:
        """Return the names of the hint's tables. Raise `EventRefused` if none is registered."""
        match hint:
            case LocationHint(location):
                return self._find_by_location(location)
            case NameHint(levels, may_have_catalog_prefix, may_be_mirror_name):
                names = [levels, levels[1:]] if may_have_catalog_prefix else [levels]
                found = next((self.by_name[name] for name in names if name in self.by_name), None)
                if found is None and may_be_mirror_name:
                    found = self.by_mirror.get(levels)
        if found is None:
            raise EventRefused(RefusalReason.UNREGISTERED, "no table of this name is registered")
        return found

    def _find_by_location(self, location: ObjectLocation) -> frozenset[str]:
        if (location.store, location.bucket) not in self.buckets:
            raise EventRefused(RefusalReason.FOREIGN_BUCKET, "no registered changelog is in this bucket")
        for folder in location.folders():  # innermost first: the longest prefix wins
            if folder in self.by_folder:
                return self.by_folder[folder]
        raise EventRefused(
            RefusalReason.UNREGISTERED, "no registered changelog keeps its metadata in this folder"
        )
