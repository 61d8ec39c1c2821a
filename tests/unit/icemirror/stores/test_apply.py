"""Applying an event: after a conflicting write it is decided again from fresh rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from icemirror.errors import Transient
from icemirror.protocol.events import Dispatch, Noticed
from icemirror.protocol.row_selection import ALL_ROWS, RowSelection
from icemirror.protocol.rows import Row, Rows, TableRow
from icemirror.stores.apply import apply
from icemirror.stores.sqlite import SqliteStore
from tests.unit.icemirror.protocol.samples import OPTIONS, POLICY, dirty


class ConflictingStore(SqliteStore):
    """A store in which another writer commits before each of the first `times` writes."""

    times = 0

    def compare_and_set(self, row: Row) -> bool:
        if self.times > 0:
            self.times -= 1
            current = self.load(ALL_ROWS).tables.get("t", TableRow("t"))
            super().compare_and_set(replace(current, dirty=current.dirty + 1))
        return super().compare_and_set(row)


def test_conflicting_write_is_decided_again(tmp_path: Path) -> None:
    with ConflictingStore(tmp_path / "s.db") as store:
        store.times = 3
        applied = apply(store, Noticed(1.0, "t", OPTIONS), POLICY, lambda _: None)
        assert store.load(ALL_ROWS).tables["t"].dirty == 4
        assert isinstance(applied.old_row, TableRow)
        assert isinstance(applied.new_row, TableRow)
        assert (applied.old_row.dirty, applied.new_row.dirty) == (3, 4)


def test_repeated_conflicts_raise_a_transient_error(tmp_path: Path) -> None:
    with ConflictingStore(tmp_path / "s.db") as store:
        store.times = 10_000
        with pytest.raises(Transient, match="Noticed"):
            apply(store, Noticed(1.0, "t", OPTIONS), POLICY, lambda _: None)


def test_event_without_effect_writes_nothing(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "s.db") as store:
        applied = apply(store, Dispatch(1.0, "default"), POLICY)
        assert (applied.new_row, applied.actions) == (None, ())
        assert store.load(ALL_ROWS) == Rows({}, {})


def test_only_the_rows_of_the_event_are_read(tmp_path: Path) -> None:
    loads: list[RowSelection] = []

    class RecordingStore(SqliteStore):
        def load(self, reads: RowSelection) -> Rows:
            loads.append(reads)
            return super().load(reads)

    with RecordingStore(tmp_path / "s.db") as store:
        store.compare_and_set(dirty("t"))
        apply(store, Noticed(1.0, "t", OPTIONS), POLICY)
    assert loads == [RowSelection(frozenset({"t"}), frozenset())]
