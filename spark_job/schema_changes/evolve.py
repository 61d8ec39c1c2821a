"""How a mirror's columns follow its changelog's: by field id, at any depth. Nothing here has an effect.

A column that the changelog has no more is kept, and is NULL in rows of files that do not have it. Values go by field
id, so where older files still have it, they are merged: what a row holds does not depend on when it is merged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from pyiceberg.schema import Schema
from pyiceberg.types import (
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StructType,
)

from spark_job.columns.field_map import FieldMap, field_ids

_OTHER_ORDER = "columns in another order"


@dataclass(frozen=True)
class Rules:
    """What a mirror allows. `pinned`: its fields that cannot go, because it is partitioned or sorted by them.

    `has_rows`, `keeps_defaults`: whether there are rows that have never had a new column, and whether the format can
    say what they hold in it. `left_out`, `known_dropped`: field ids of the changelog that the settings leave out, and
    those of which it was told before that it has them no more. `drop`: such columns go from the mirror as well.
    `followed`: the changelog's fields as they were followed last, by id and in their order, if known: order and
    comments change in the mirror where they changed there. `gone`: fields that the changelog has no more, by id, as it
    had them last: files that still have them are of those types.
    """

    key_ids: frozenset[int]
    pinned: frozenset[int] = frozenset()
    left_out: frozenset[int] = frozenset()
    known_dropped: frozenset[int] = frozenset()
    drop: bool = False
    has_rows: bool = True
    keeps_defaults: bool = False
    followed: Mapping[int, NestedField] | None = None
    gone: Mapping[int, NestedField] = field(default_factory=dict)


@dataclass(frozen=True)
class Evolved:
    """The mirror's columns after it has followed: `changes` in words, `remarks` of comments, what is `refused`."""

    fields: tuple[NestedField, ...]
    field_map: FieldMap
    dropped: tuple[int, ...]
    changes: tuple[str, ...]
    remarks: tuple[str, ...]
    refused: tuple[str, ...]


def evolve(changelog: Schema, mirror: Schema, ids: FieldMap, last_id: int, rules: Rules) -> Evolved:
    """The mirror's next columns. `changelog`: the columns of the row, named as in the mirror; `ids`: its map so far."""
    following = _Following(dict(ids), rules, count(last_id + 1).__next__)
    fields = following.struct(changelog.fields, mirror.fields, "")
    ids_now = following.ids
    there = set(field_ids(StructType(*fields)))
    here = set(field_ids(changelog.as_struct()))
    kept = {source: target for source, target in ids_now.items() if target in there}
    return Evolved(
        fields=fields,
        field_map=kept,
        dropped=tuple(sorted(source for source in kept if source not in here)),
        changes=tuple(following.changes),
        remarks=tuple(following.remarks),
        refused=tuple(following.refused),
    )


def widens(before: IcebergType, after: IcebergType) -> bool:
    """Whether every value of one type is one of the other, and files of the one are read as the other."""
    match before, after:
        case IntegerType(), LongType():
            return True
        case FloatType(), DoubleType():
            return True
        case DecimalType(), DecimalType():
            return before.scale == after.scale and before.precision < after.precision
        case _:
            return False


@dataclass
class _Following:
    ids: dict[int, int]
    rules: Rules
    next_id: Callable[[], int]
    changes: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.places = {one: at for at, one in enumerate(self.rules.followed or ())}
        self.sources: dict[int, list[int]] = {}
        for source, target in self.ids.items():
            self.sources.setdefault(target, []).append(source)

    def struct(
        self, here: Sequence[NestedField], there: Sequence[NestedField], within: str
    ) -> tuple[NestedField, ...]:
        """The fields of a struct, or the columns: those of the changelog, then those that it does not have."""
        known = {one.field_id: one for one in there}
        told = [(one, known.get(self.ids.get(one.field_id, -1))) for one in here]
        same = {old.field_id: self._same(one, old, within) for one, old in told if old is not None}
        if self._moved([one.field_id for one, old in told if old is not None], list(known)):
            self.changes.append(f"fields of {within[:-1]} in another order" if within else _OTHER_ORDER)
            fields = list(same.values())
        else:
            fields = [same[old.field_id] for old in there if old.field_id in same]
        fields = self._with_new(fields, told, within)
        taken = Counter(one.name for one in fields)
        for old in there:
            if old.field_id not in same and (kept := self._left(old, taken, within)) is not None:
                taken[kept.name] += 1
                fields.append(kept)
        return tuple(fields)

    def _with_new(
        self, fields: list[NestedField], told: Sequence[tuple[NestedField, NestedField | None]], within: str
    ) -> list[NestedField]:
        """New ones stand after the one that they stand after in the changelog."""
        after: dict[int | None, list[NestedField]] = {}
        last: int | None = None
        for one, old in told:
            if old is None:
                after.setdefault(last, []).append(self._new(one, within))
            else:
                last = old.field_id
        if not after:
            return fields
        arranged = [new for one in fields for new in (one, *after.get(one.field_id, ()))]
        return [*after.get(None, ()), *arranged]

    def _moved(self, here: list[int], there: list[int]) -> bool:
        """Whether the changelog has these in another order than when it was followed last."""
        if self.rules.followed is None and not self.rules.has_rows:  # it was made so, and nothing came of it
            places = [there.index(self.ids[one]) for one in here]
        else:
            places = [self.places[one] for one in here if one in self.places]
        return places != sorted(places)

    def _new(self, here: NestedField, within: str) -> NestedField:
        """Optional: the rows that are there do not have it."""
        name = within + here.name
        self.changes.append(f"new column {name} ({here.field_type})")
        default = here.initial_default
        if default is not None and self.rules.has_rows and not self.rules.keeps_defaults:
            self.refused.append(
                f"new column {name} has a default, which rows that are there already can hold from format version 3 on"
            )
        told: dict[str, Any] = {}  # Any: of the column's type
        if default is not None and self.rules.keeps_defaults:
            told = {"initial_default": default, "write_default": default}
        return NestedField(
            self._give(here.field_id), here.name, self._fresh(here.field_type), doc=here.doc, **told
        )

    def _give(self, source: int) -> int:
        self.ids[source] = self.next_id()
        return self.ids[source]

    def _fresh(self, kind: IcebergType) -> IcebergType:
        """A type with ids of the mirror's own."""
        match kind:
            case StructType():
                given = [self._give(one.field_id) for one in kind.fields]
                return StructType(
                    *(
                        NestedField(number, one.name, self._fresh(one.field_type), one.required, one.doc)
                        for number, one in zip(given, kind.fields, strict=True)
                    )
                )
            case ListType():
                return ListType(
                    self._give(kind.element_id), self._fresh(kind.element_type), kind.element_required
                )
            case MapType():
                key, value = self._give(kind.key_id), self._give(kind.value_id)
                return MapType(
                    key, self._fresh(kind.key_type), value, self._fresh(kind.value_type), kind.value_required
                )
            case _:
                return kind

    def _same(self, here: NestedField, old: NestedField, within: str) -> NestedField:
        name = within + here.name
        if here.name != old.name:
            self.changes.append(f"column {within}{old.name} renamed to {here.name}")
        kind = self._kind(here.field_type, old.field_type, name)
        required = old.required and (here.required or here.field_id in self.rules.key_ids)
        if required != old.required:
            self.changes.append(f"column {name} may now be NULL")
        doc = self._doc(here, old)
        if doc != old.doc:
            self.remarks.append(f"comment of column {name} changed")
        if (here.name, kind, required, doc) == (old.name, old.field_type, old.required, old.doc):
            return old
        update = {"name": here.name, "field_type": kind, "required": required, "doc": doc}
        return old.model_copy(update=update)

    def _doc(self, here: NestedField, old: NestedField) -> str | None:
        """The changelog's comment where that changed; else the mirror's, which others may have written."""
        before = (self.rules.followed or {}).get(here.field_id)
        if before is None:
            return here.doc or old.doc
        return old.doc if before.doc == here.doc else here.doc

    def _kind(self, here: IcebergType, old: IcebergType, name: str) -> IcebergType:
        match here, old:
            case StructType(), StructType():
                fields = self.struct(here.fields, old.fields, f"{name}.")
                return old if fields == old.fields else StructType(*fields)
            case ListType(), ListType():
                self.ids[here.element_id] = old.element_id
                element = self._kind(here.element_type, old.element_type, f"{name}.element")
                required = self._loosened(here.element_required, old.element_required, f"{name}.element")
                return ListType(old.element_id, element, required)
            case MapType(), MapType():
                self.ids |= {here.key_id: old.key_id, here.value_id: old.value_id}
                self._require_same_keys(here, old, name)
                value = self._kind(here.value_type, old.value_type, f"{name}.value")
                required = self._loosened(here.value_required, old.value_required, f"{name}.value")
                return MapType(old.key_id, old.key_type, old.value_id, value, required)
            case _:
                return self._primitive(here, old, name)

    def _primitive(self, here: IcebergType, old: IcebergType, name: str) -> IcebergType:
        if here == old:
            return old
        told = f"column {name} changed from {old} to {here}"
        if widens(old, here):
            self.changes.append(told)
            return here
        why = "narrower" if widens(here, old) else "no wider type of the same kind"
        self.refused.append(f"{told}, which is {why}")
        return old

    def _loosened(self, here: bool, old: bool, name: str) -> bool:
        if old and not here:
            self.changes.append(f"column {name} may now be NULL")
        return old and here

    def _require_same_keys(self, here: MapType, old: MapType, name: str) -> None:
        """Two keys that become one, or differ in a field that one of them lacks, are no map any more."""
        trial = _Following(self.ids, self.rules, self.next_id)
        if trial._kind(here.key_type, old.key_type, f"{name}.key") != old.key_type or trial.refused:
            self.refused.append(f"the keys of the map {name} changed from {old.key_type} to {here.key_type}")

    def _left(self, old: NestedField, taken: Counter[str], within: str) -> NestedField | None:
        """A field of the mirror that the changelog does not have, or never had; None where it goes."""
        sources = self.sources.get(old.field_id, ())
        name = within + old.name
        if self.rules.left_out.intersection(sources):
            if old.field_id in self.rules.pinned:
                self.refused.append(
                    f"column {name} is left out, but the mirror is partitioned or sorted by it"
                )
            self.remarks.append(f"column {name} is left out of the mirror (columns)")
            return None
        if sources and not self.rules.known_dropped.intersection(sources):
            self.changes.append(f"column {name} dropped")
        pinned = self.rules.pinned.intersection((old.field_id, *field_ids(old.field_type)))
        if sources and self.rules.drop and not pinned:
            return None
        kind = self._caught_up(old.field_id, old.field_type, name)
        if old.name not in taken and not old.required and kind == old.field_type:
            return old
        update = {"name": self._aside(old, taken, within), "required": False, "field_type": kind}
        return old.model_copy(update=update)

    def _caught_up(self, field_id: int, old: IcebergType, name: str) -> IcebergType:
        """The type of a dropped field with what it was widened to before: rows of that time may be merged later."""
        match old:
            case StructType():
                kinds = [
                    self._caught_up(one.field_id, one.field_type, f"{name}.{one.name}") for one in old.fields
                ]
                both = zip(old.fields, kinds, strict=True)
                return StructType(*(one.model_copy(update={"field_type": kind}) for one, kind in both))
            case ListType():
                element = self._caught_up(old.element_id, old.element_type, f"{name}.element")
                return ListType(old.element_id, element, old.element_required)
            case MapType():
                value = self._caught_up(old.value_id, old.value_type, f"{name}.value")
                return MapType(old.key_id, old.key_type, old.value_id, value, old.value_required)
            case _:
                last = [
                    self.rules.gone[one] for one in self.sources.get(field_id, ()) if one in self.rules.gone
                ]
                return self._primitive(last[0].field_type, old, name) if last else old

    def _aside(self, old: NestedField, taken: Counter[str], within: str) -> str:
        """The name that a dropped column keeps, or gets where another has it now."""
        if old.name not in taken:
            return old.name
        name = f"{old.name}_dropped_{old.field_id}"
        while name in taken:
            name += "_"
        self.changes.append(f"column {within}{old.name}, which was dropped, renamed to {name}")
        return name
