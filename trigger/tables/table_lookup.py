"""Finds the registered tables that a hint belongs to. A table that is not registered is never found."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self, assert_never

from trigger.sources.hints import LocationHint, NameHint
from trigger.sources.object_location import ObjectLocation, parse_location
from trigger.sources.refusal import Refusal, RefusalReason

if TYPE_CHECKING:
    from icemirror.settings import TableSettings


@dataclass(frozen=True, slots=True)
class TableLookup:
    """Registered tables by changelog name, by mirror name, and by the folder of the changelog's metadata."""

    by_changelog: Mapping[tuple[str, ...], frozenset[str]] = field(default_factory=dict)
    by_mirror: Mapping[tuple[str, ...], frozenset[str]] = field(default_factory=dict)
    by_folder: Mapping[ObjectLocation, frozenset[str]] = field(default_factory=dict)
    buckets: frozenset[tuple[str, str]] = frozenset()

    @classmethod
    def build(cls, tables: Iterable[TableSettings], heads: Mapping[str, str]) -> Self:
        """Return the index of these tables; `heads` are the known heads of their changelogs, by mirror.

        A changelog's folder is the folder of its current metadata file. A catalog may return an http address instead:
        then no object store holds the file, and the changelog has no folder.
        """
        by_changelog: dict[tuple[str, ...], set[str]] = defaultdict(set)
        by_mirror: dict[tuple[str, ...], set[str]] = defaultdict(set)
        by_folder: dict[ObjectLocation, set[str]] = defaultdict(set)
        for table in tables:
            by_changelog[table.changelog_id.parts].add(table.name)
            by_mirror[table.mirror_id.parts].add(table.name)
            head = parse_location(heads.get(table.name, ""))
            if head is not None and (folder := next(head.folders(), None)) is not None:
                by_folder[folder].add(table.name)
        return cls(
            {name: frozenset(tables) for name, tables in by_changelog.items()},
            {name: frozenset(tables) for name, tables in by_mirror.items()},
            {folder: frozenset(tables) for folder, tables in by_folder.items()},
            frozenset((folder.store, folder.bucket) for folder in by_folder),
        )

    def find(self, hint: LocationHint | NameHint) -> frozenset[str] | Refusal:
        """Return the names of the hint's tables, or a refusal if none is registered."""
        match hint:
            case LocationHint(location):
                return self._find_by_location(location)
            case NameHint():
                return self._find_by_name(hint)
        assert_never(hint)

    def _find_by_name(self, hint: NameHint) -> frozenset[str] | Refusal:
        names = [hint.levels, hint.levels[1:]] if hint.may_have_catalog_prefix else [hint.levels]
        for name in names:
            if name in self.by_changelog:
                return self.by_changelog[name]
        if hint.may_be_mirror_name and hint.levels in self.by_mirror:
            return self.by_mirror[hint.levels]
        return Refusal(RefusalReason.UNREGISTERED, "no table of this name is registered")

    def _find_by_location(self, location: ObjectLocation) -> frozenset[str] | Refusal:
        if (location.store, location.bucket) not in self.buckets:
            return Refusal(RefusalReason.FOREIGN_BUCKET, "no registered changelog is in this bucket")
        for folder in location.folders():  # innermost first: the longest prefix wins
            if folder in self.by_folder:
                return self.by_folder[folder]
        return Refusal(
            RefusalReason.UNREGISTERED, "no registered changelog keeps its metadata in this folder"
        )
