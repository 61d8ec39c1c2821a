from __future__ import annotations

import threading
from itertools import islice
from pathlib import Path

from pyiceberg.catalog.sql import SqlCatalog

from icemirror.cli.demo.oracle.journal import Journal, replay_journal
from icemirror.cli.demo.shop import SHOP
from icemirror.cli.demo.workspace import DemoMarker
from icemirror.cli.demo.writer import (
    COPY_COMMITS,
    TableWriter,
    copy_tables,
    flush_times,
    open_writers,
    stream_changes,
)

_MARKER = DemoMarker(seed=2, rows=400)


def _expected(journal: Journal) -> list[dict[bytes, bytes]]:
    return [
        replay_journal(journal.connection, shape.subject, journal.position_after(shape.subject, None))
        for shape in SHOP
    ]


def _catalog(path: Path) -> SqlCatalog:
    path.mkdir()
    return SqlCatalog("icemirror", uri=f"sqlite:///{path}/catalog.db", warehouse=f"file://{path}/warehouse")


def _flush(lanes: list[TableWriter], times: int) -> None:
    for _ in range(times):
        for lane in lanes:
            lane.commit(lane.traffic.next_flush())


def test_an_interrupted_story_goes_on_as_if_it_had_not_been(tmp_path: Path) -> None:
    whole, whole_journal = _catalog(tmp_path / "whole"), Journal.open(None)
    lanes = open_writers(whole, whole_journal, _MARKER)
    copy_tables(lanes, lambda _lane, _events: None)
    _flush(lanes, 5)

    parts, parts_journal = _catalog(tmp_path / "parts"), Journal.open(None)
    first = open_writers(parts, parts_journal, _MARKER)
    first[0].commit(first[0].traffic.initial_copy(COPY_COMMITS)[0])  # and then it is interrupted
    second = open_writers(parts, parts_journal, _MARKER)
    copy_tables(second, lambda _lane, _events: None)
    _flush(second, 3)
    third = open_writers(parts, parts_journal, _MARKER)
    copy_tables(third, lambda _lane, _events: None)
    _flush(third, 2)

    assert _expected(parts_journal) == _expected(whole_journal)
    assert [len(lane.ledger) for lane in third] == [COPY_COMMITS + 5] * 3
    assert [lane.ledger[-1].events_so_far for lane in third] == [
        lane.ledger[-1].events_so_far for lane in lanes
    ]


def test_the_tables_are_flushed_in_turn(tmp_path: Path) -> None:
    lanes = open_writers(_catalog(tmp_path / "x"), Journal.open(None), _MARKER)
    planned = list(islice(flush_times(lanes), 46))
    assert [lane.name for _, lane in planned[:4]] == ["customers", "order_items", "products", "customers"]
    assert [round(due) for due, _ in (planned[0], planned[3], planned[45])] == [0, 2, 30]


def test_a_stream_stops_on_request(tmp_path: Path) -> None:
    lanes = open_writers(_catalog(tmp_path / "x"), Journal.open(None), _MARKER)
    stop = threading.Event()
    stop.set()
    stream_changes(lanes, stop)
    assert [lane.ledger for lane in lanes] == [[], [], []]
