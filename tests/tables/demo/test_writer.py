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
        replay_journal(
            journal.connection, shop_table.subject, journal.position_after(shop_table.subject, None)
        )
        for shop_table in SHOP
    ]


def _catalog(path: Path) -> SqlCatalog:
    path.mkdir()
    return SqlCatalog("icemirror", uri=f"sqlite:///{path}/catalog.db", warehouse=f"file://{path}/warehouse")


def _flush(writers: list[TableWriter], times: int) -> None:
    for _ in range(times):
        for writer in writers:
            writer.commit(writer.generator.next_flush())


def test_interrupted_writer_resumes_with_the_same_events(tmp_path: Path) -> None:
    complete, complete_journal = _catalog(tmp_path / "whole"), Journal.open(None)
    writers = open_writers(complete, complete_journal, _MARKER)
    copy_tables(writers, lambda _writer, _events: None)
    _flush(writers, 5)

    resumed, resumed_journal = _catalog(tmp_path / "parts"), Journal.open(None)
    first = open_writers(resumed, resumed_journal, _MARKER)
    first[0].commit(first[0].generator.initial_copy(COPY_COMMITS)[0])  # the writer is interrupted here
    second = open_writers(resumed, resumed_journal, _MARKER)
    copy_tables(second, lambda _writer, _events: None)
    _flush(second, 3)
    third = open_writers(resumed, resumed_journal, _MARKER)
    copy_tables(third, lambda _writer, _events: None)
    _flush(third, 2)

    assert _expected(resumed_journal) == _expected(complete_journal)
    assert [len(writer.commits) for writer in third] == [COPY_COMMITS + 5] * 3
    assert [writer.commits[-1].events_so_far for writer in third] == [
        writer.commits[-1].events_so_far for writer in writers
    ]


def test_tables_are_flushed_round_robin(tmp_path: Path) -> None:
    writers = open_writers(_catalog(tmp_path / "x"), Journal.open(None), _MARKER)
    planned = list(islice(flush_times(writers), 46))
    assert [writer.name for _, writer in planned[:4]] == ["customers", "order_items", "products", "customers"]
    assert [round(due) for due, _ in (planned[0], planned[3], planned[45])] == [0, 2, 30]


def test_stream_stops_on_request(tmp_path: Path) -> None:
    writers = open_writers(_catalog(tmp_path / "x"), Journal.open(None), _MARKER)
    stop = threading.Event()
    stop.set()
    stream_changes(writers, stop)
    assert [writer.commits for writer in writers] == [[], [], []]
