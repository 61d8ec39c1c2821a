"""Conformance tests of stores: subclass `StoreSuite` and define how to open one."""

from __future__ import annotations

import multiprocessing
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from threading import Thread

from icemirror.protocol.events import Noticed
from icemirror.protocol.reads import EVERYTHING, NO_SLOT, NO_TABLE, Reads
from icemirror.protocol.rows import SlotId, SlotRow, SlotState, TableRow
from icemirror.result import TableResult
from icemirror.stores.apply import apply
from icemirror.stores.dead_letters import MAX_AGE_SECONDS, MAX_BODY_BYTES, DeadLetter, new_letter
from icemirror.stores.store import RunResult, Store
from tests.unit.icemirror.protocol.samples import POLICY, SLOT, TERMS

OpenStore = Callable[[], Store]
WRITERS = 4


def _result(table: str, events: int = 0) -> RunResult:
    result = TableResult(table=table, outcome="merged", seconds=float(events))
    return RunResult("run-7", float(events), result)


def _letter(at: float, body: str = "") -> DeadLetter:
    return new_letter("sqs", "no such table", at, body or f"event {at}")


def notice_often(opened: OpenStore, table: str, notices: int) -> None:
    """One of several writers of one row."""
    with opened() as store:
        for _ in range(notices):
            apply(store, Noticed(1.0, table, TERMS), POLICY)


class StoreSuite(ABC):
    """Conformance of a store."""

    KEPT_RESULTS = 5
    KEPT_LETTERS = 4
    NOTICES = 40  # of each writer

    @abstractmethod
    def opener(self) -> OpenStore:
        """A picklable function that opens the same store again and again, with these bounds."""

    def test_a_new_store_is_empty(self) -> None:
        with self.opener()() as store:
            rows = store.load(EVERYTHING)
            assert (rows.tables, rows.slots) == ({}, {})
            assert store.results_since("").results == ()

    def test_rows_come_back_with_a_revision_that_lets_them_be_replaced(self) -> None:
        with self.opener()() as store:
            assert store.compare_and_set(TableRow("t", dirty=1))
            found = store.load(EVERYTHING).tables["t"]
            assert (found, bool(found.revision)) == (TableRow("t", dirty=1), True)
            assert store.compare_and_set(replace(found, dirty=2))
            assert store.load(EVERYTHING).tables["t"].dirty == 2

    def test_a_stale_writer_is_refused(self) -> None:
        with self.opener()() as store:
            assert store.compare_and_set(SlotRow(SLOT))
            seen = store.load(EVERYTHING).slots[SLOT]
            assert store.compare_and_set(replace(seen, state=SlotState.LAUNCHING))
            assert not store.compare_and_set(replace(seen, state=SlotState.RUNNING))
            assert store.load(EVERYTHING).slots[SLOT].state is SlotState.LAUNCHING

    def test_a_row_is_made_once(self) -> None:
        with self.opener()() as store:
            assert store.compare_and_set(TableRow("t", dirty=1))
            assert not store.compare_and_set(TableRow("t", dirty=9))
            assert store.load(EVERYTHING).tables["t"].dirty == 1

    def test_a_row_that_returns_to_what_it_was_is_another_row(self) -> None:
        with self.opener()() as store:
            store.compare_and_set(TableRow("t", dirty=1))
            first = store.load(EVERYTHING).tables["t"]
            store.compare_and_set(replace(first, dirty=2))
            store.compare_and_set(replace(store.load(EVERYTHING).tables["t"], dirty=1))
            assert not store.compare_and_set(replace(first, dirty=3))

    def test_only_the_rows_asked_for_are_loaded(self) -> None:
        heavy = SlotId("heavy", 1)
        with self.opener()() as store:
            for row in (TableRow("a"), TableRow("b"), SlotRow(SLOT), SlotRow(heavy)):
                assert store.compare_and_set(row)
            rows = store.load(Reads(frozenset({"b", "missing"}), NO_SLOT))
            assert (set(rows.tables), set(rows.slots)) == ({"b"}, set())
            rows = store.load(Reads(NO_TABLE, frozenset({heavy})))
            assert (set(rows.tables), set(rows.slots)) == (set(), {heavy})
            rows = store.load(Reads(None, NO_SLOT))
            assert (set(rows.tables), set(rows.slots)) == ({"a", "b"}, set())
            rows = store.load(Reads(NO_TABLE, NO_SLOT))
            assert (set(rows.tables), set(rows.slots)) == (set(), set())

    def test_a_table_and_a_slot_of_the_same_name_are_two_rows(self) -> None:
        with self.opener()() as store:
            assert store.compare_and_set(TableRow("default-0", dirty=1))
            assert store.compare_and_set(SlotRow(SLOT, gen=5))
            rows = store.load(EVERYTHING)
            assert (rows.tables["default-0"].dirty, rows.slots[SLOT].gen) == (1, 5)

    def test_another_process_sees_what_was_written(self) -> None:
        opened = self.opener()
        with opened() as one, opened() as other:
            one.compare_and_set(TableRow("t", dirty=1))
            assert other.load(EVERYTHING).tables["t"].dirty == 1

    def test_token_changes_when_any_writer_makes_a_table_wait(self) -> None:
        opened = self.opener()
        with opened() as one, opened() as other:
            seen = [one.change_token()]
            assert one.change_token() == seen[0]
            other.compare_and_set(TableRow("t", dirty=1))
            seen.append(one.change_token())
            assert one.change_token() == seen[1]
            one.compare_and_set(replace(one.load(EVERYTHING).tables["t"], dirty=2))
            seen.append(one.change_token())
            assert len(set(seen)) == 3

    def test_no_notice_is_lost_among_processes(self) -> None:
        opened = self.opener()
        context = multiprocessing.get_context("spawn")
        writers = [
            context.Process(target=notice_often, args=(opened, "t", self.NOTICES)) for _ in range(WRITERS)
        ]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        assert [writer.exitcode for writer in writers] == [0] * WRITERS
        with opened() as store:
            assert store.load(EVERYTHING).tables["t"].dirty == WRITERS * self.NOTICES

    def test_threads_may_share_a_store(self) -> None:
        with self.opener()() as store:

            def notice() -> None:
                for _ in range(self.NOTICES):
                    apply(store, Noticed(1.0, "t", TERMS), POLICY)

            threads = [Thread(target=notice) for _ in range(WRITERS)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert store.load(EVERYTHING).tables["t"].dirty == WRITERS * self.NOTICES

    def test_results_come_in_order_and_from_a_cursor_on(self) -> None:
        with self.opener()() as store:
            for at, table in enumerate(["a", "b", "a"]):
                store.record_result(_result(table, at))
            page = store.results_since("")
            assert [run.result.table for run in page.results] == ["a", "b", "a"]
            assert store.results_since(page.cursor).results == ()
            assert store.last_cursor() == page.cursor
            store.record_result(_result("c", 3))
            assert store.results_since(page.cursor).results == (_result("c", 3),)

    def test_the_old_end_of_a_tables_history_is_cut_and_no_other_tables(self) -> None:
        with self.opener()() as store:
            store.record_result(_result("quiet", 100))
            for at in range(self.KEPT_RESULTS + 3):
                store.record_result(_result("busy", at))
            kept = [run.result for run in store.results_since("").results]
            assert [one.seconds for one in kept if one.table == "busy"] == [3.0, 4.0, 5.0, 6.0, 7.0]
            assert [one.table for one in kept].count("quiet") == 1

    def test_letters_come_back_oldest_first_until_they_are_removed(self) -> None:
        late, early = _letter(2.0, "x" * MAX_BODY_BYTES), _letter(1.0, 'bad \x00 "\ud800" event')
        with self.opener()() as store:
            store.put_letter(late)
            store.put_letter(early)
            assert store.letters() == (early, late)
            assert store.remove_letter(early.id)
            assert not store.remove_letter(early.id)
            assert store.letters() == (late,)

    def test_an_event_that_comes_again_is_one_letter_with_the_latest_reason(self) -> None:
        again = new_letter("sqs", "another reason", 3.0, "event")
        with self.opener()() as store:
            store.put_letter(_letter(1.0, "event"))
            store.put_letter(again)
            assert store.letters() == (again,)

    def test_the_oldest_letters_go_where_there_are_too_many(self) -> None:
        with self.opener()() as store:
            for at in range(self.KEPT_LETTERS + 2):
                store.put_letter(_letter(float(at)))
            assert [letter.received_at for letter in store.letters()] == [2.0, 3.0, 4.0, 5.0]

    def test_letters_go_when_they_are_too_old(self) -> None:
        with self.opener()() as store:
            store.put_letter(_letter(1.0))
            store.put_letter(_letter(2.0 + MAX_AGE_SECONDS))
            assert [letter.received_at for letter in store.letters()] == [2.0 + MAX_AGE_SECONDS]

    def test_letters_that_were_removed_make_room(self) -> None:
        with self.opener()() as store:
            for at in range(self.KEPT_LETTERS):
                store.put_letter(_letter(float(at)))
            for gone in (2.0, 3.0):
                assert store.remove_letter(_letter(gone).id)
            for new in (8.0, 9.0):
                store.put_letter(_letter(new))
            assert [letter.received_at for letter in store.letters()] == [0.0, 1.0, 8.0, 9.0]

    def test_a_letter_older_than_all_that_may_stay_is_not_kept(self) -> None:
        with self.opener()() as store:
            for at in range(self.KEPT_LETTERS):
                store.put_letter(_letter(10.0 + at))
            store.put_letter(_letter(1.0))
            assert [letter.received_at for letter in store.letters()] == [10.0, 11.0, 12.0, 13.0]

    def test_letters_are_no_rows_and_no_results(self) -> None:
        with self.opener()() as store:
            store.put_letter(_letter(1.0))
            rows = store.load(EVERYTHING)
            assert (rows.tables, rows.slots, store.results_since("").results) == ({}, {}, ())
