"""Applying an event: it is decided again from fresh rows if another writer was faster."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from icemirror.errors import Transient
from icemirror.protocol.events import Dispatch, Noticed
from icemirror.protocol.reads import EVERYTHING, Reads
from icemirror.protocol.rows import Row, Rows, TableRow
from icemirror.stores.apply import apply
from icemirror.stores.sqlite import SqliteStore
from tests.unit.icemirror.protocol.samples import POLICY, TERMS, dirty


class Overtaken(SqliteStore):
    """Another writer gets in before the first `times` writes."""

    times = 0

    def compare_and_set(self, row: Row) -> bool:
        if self.times > 0:
            self.times -= 1
            current = self.load(EVERYTHING).tables.get("t", TableRow("t"))
            super().compare_and_set(replace(current, dirty=current.dirty + 1))
        return super().compare_and_set(row)


def test_a_writer_that_is_overtaken_decides_again(tmp_path: Path) -> None:
    with Overtaken(tmp_path / "s.db") as store:
        store.times = 3
        applied = apply(store, Noticed(1.0, "t", TERMS), POLICY, lambda _: None)
        assert store.load(EVERYTHING).tables["t"].dirty == 4
        assert isinstance(applied.before, TableRow)
        assert isinstance(applied.after, TableRow)
        assert (applied.before.dirty, applied.after.dirty) == (3, 4)


def test_a_writer_that_is_always_overtaken_gives_up(tmp_path: Path) -> None:
    with Overtaken(tmp_path / "s.db") as store:
        store.times = 10_000
        with pytest.raises(Transient, match="Noticed"):
            apply(store, Noticed(1.0, "t", TERMS), POLICY, lambda _: None)


def test_what_changes_nothing_writes_nothing(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "s.db") as store:
        applied = apply(store, Dispatch(1.0, "default"), POLICY)
        assert (applied.after, applied.actions) == (None, ())
        assert store.load(EVERYTHING) == Rows({}, {})


def test_only_the_rows_that_the_event_needs_are_read(tmp_path: Path) -> None:
    asked: list[Reads] = []

    class Noted(SqliteStore):
        def load(self, reads: Reads) -> Rows:
            asked.append(reads)
            return super().load(reads)

    with Noted(tmp_path / "s.db") as store:
        store.compare_and_set(dirty("t"))
        apply(store, Noticed(1.0, "t", TERMS), POLICY)
    assert asked == [Reads(frozenset({"t"}), frozenset())]
