"""Whose table a hint is about: only tables of the registry are ever found."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from trigger.sources.hints import LocationHint, NameHint
from trigger.sources.place import Place, parse_place
from trigger.sources.refused import Reason, Refused

if TYPE_CHECKING:
    from icemirror.settings import TableSettings


@dataclass(frozen=True, slots=True)
class Directory:
    """The registered tables by their changelogs' names, and by the folders of their changelogs' metadata."""

    by_name: Mapping[tuple[str, ...], frozenset[str]] = field(default_factory=dict)
    mirrors: Mapping[tuple[str, ...], frozenset[str]] = field(default_factory=dict)
    by_folder: Mapping[Place, frozenset[str]] = field(default_factory=dict)
    buckets: frozenset[tuple[str, str]] = frozenset()

    @classmethod
    def of(cls, tables: Iterable[TableSettings], heads: Mapping[str, str]) -> Self:
        """Of these tables, with what is known of their changelogs' heads, by mirror.

        A changelog's folder is the one that its current metadata are in. Where the catalog gives an address of the
        web instead, no object store holds them, and nothing is derived from it.
        """
        by_name: dict[tuple[str, ...], set[str]] = defaultdict(set)
        mirrors: dict[tuple[str, ...], set[str]] = defaultdict(set)
        by_folder: dict[Place, set[str]] = defaultdict(set)
        for table in tables:
            by_name[table.changelog_id.parts].add(table.name)
            mirrors[table.mirror_id.parts].add(table.name)
            place = parse_place(heads.get(table.name, ""))
            if place is not None and (folder := next(place.folders(), None)) is not None:
                by_folder[folder].add(table.name)
        return cls(
            {name: frozenset(found) for name, found in by_name.items()},
            {name: frozenset(found) for name, found in mirrors.items()},
            {folder: frozenset(found) for folder, found in by_folder.items()},
            frozenset((folder.store, folder.bucket) for folder in by_folder),
        )

    def find(self, hint: LocationHint | NameHint) -> frozenset[str]:
        """The tables by name; `Refused` where none is registered there."""
        match hint:
            case LocationHint(place):
                return self._at(place)
            case NameHint(levels, qualified, or_mirror):
                named = [levels, levels[1:]] if qualified else [levels]
                found = next((self.by_name[name] for name in named if name in self.by_name), None)
                if found is None and or_mirror:
                    found = self.mirrors.get(levels)
        if found is None:
            raise Refused(Reason.UNREGISTERED, "no table of this name is registered")
        return found

    def _at(self, place: Place) -> frozenset[str]:
        if (place.store, place.bucket) not in self.buckets:
            raise Refused(Reason.FOREIGN_BUCKET, "no registered changelog is in this bucket")
        for folder in place.folders():  # the innermost first: the longest prefix decides
            if folder in self.by_folder:
                return self.by_folder[folder]
        raise Refused(Reason.UNREGISTERED, "no registered changelog has its metadata there")
