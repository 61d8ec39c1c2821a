"""Conformance tests for stores: subclass `StoreSuite` and define `opener`."""

from __future__ import annotations

import multiprocessing
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from threading import Thread

from icemirror.protocol.events import Noticed
from icemirror.protocol.row_selection import ALL_ROWS, NO_SLOTS, NO_TABLES, RowSelection
from icemirror.protocol.rows import SlotId, SlotRow, SlotState, TableRow
from icemirror.result import TableResult
from icemirror.stores.apply import apply
from icemirror.stores.dead_letters import MAX_AGE_SECONDS, MAX_BODY_BYTES, DeadLetter, new_letter
from icemirror.stores.store import Store, TurnResult
from tests.unit.icemirror.protocol.samples import OPTIONS, POLICY, SLOT

OpenStore = Callable[[], Store]
WRITERS = 4


def _result(table: str, events: int = 0) -> TurnResult:
    result = TableResult(table=table, outcome="merged", seconds=float(events))
    return TurnResult("run-7", float(events), result)


def _letter(at: float, body: str = "") -> DeadLetter:
    return new_letter("sqs", "no such table", at, body or f"event {at}")


def notice_often(opened: OpenStore, table: str, notices: int) -> None:
    """Write many notices of one table, concurrently with other writers."""
    with opened() as store:
        for _ in range(notices):
            apply(store, Noticed(1.0, table, OPTIONS), POLICY)


class StoreSuite(ABC):
    """Conformance of a store."""

    KEPT_RESULTS = 5
    KEPT_LETTERS = 4
    NOTICES = 40  # of each writer

    @abstractmethod
    def opener(self) -> OpenStore:
        """Return a picklable function that opens the same store, with these limits."""

    def test_new_store_is_empty(self) -> None:
        with self.opener()() as store:
            rows = store.load(ALL_ROWS)
            assert (rows.tables, rows.slots) == ({}, {})
            assert store.results_since("").results == ()

    def test_loaded_row_has_a_revision_with_which_it_can_be_replaced(self) -> None:
        with self.opener()() as store:
            assert store.compare_and_set(TableRow("t", dirty=1))
            found = store.load(ALL_ROWS).tables["t"]
            assert (found, bool(found.revision)) == (TableRow("t", dirty=1), True)
            assert store.compare_and_set(replace(found, dirty=2))
            assert store.load(ALL_ROWS).tables["t"].dirty == 2

    def test_stale_write_is_refused(self) -> None:
        with self.opener()() as store:
            assert store.compare_and_set(SlotRow(SLOT))
            seen = store.load(ALL_ROWS).slots[SLOT]
            assert store.compare_and_set(replace(seen, state=SlotState.LAUNCHING))
            assert not store.compare_and_set(replace(seen, state=SlotState.RUNNING))
            assert store.load(ALL_ROWS).slots[SLOT].state is SlotState.LAUNCHING

    def test_row_is_created_once(self) -> None:
        with self.opener()() as store:
            assert store.compare_and_set(TableRow("t", dirty=1))
            assert not store.compare_and_set(TableRow("t", dirty=9))
            assert store.load(ALL_ROWS).tables["t"].dirty == 1

    def test_row_with_restored_content_has_a_new_revision(self) -> None:
        with self.opener()() as store:
            store.compare_and_set(TableRow("t", dirty=1))
            first = store.load(ALL_ROWS).tables["t"]
            store.compare_and_set(replace(first, dirty=2))
            store.compare_and_set(replace(store.load(ALL_ROWS).tables["t"], dirty=1))
            assert not store.compare_and_set(replace(first, dirty=3))

    def test_only_requested_rows_are_loaded(self) -> None:
        heavy = SlotId("heavy", 1)
        with self.opener()() as store:
            for row in (TableRow("a"), TableRow("b"), SlotRow(SLOT), SlotRow(heavy)):
                assert store.compare_and_set(row)
            rows = store.load(RowSelection(frozenset({"b", "missing"}), NO_SLOTS))
            assert (set(rows.tables), set(rows.slots)) == ({"b"}, set())
            rows = store.load(RowSelection(NO_TABLES, frozenset({heavy})))
            assert (set(rows.tables), set(rows.slots)) == (set(), {heavy})
            rows = store.load(RowSelection(None, NO_SLOTS))
            assert (set(rows.tables), set(rows.slots)) == ({"a", "b"}, set())
            rows = store.load(RowSelection(NO_TABLES, NO_SLOTS))
            assert (set(rows.tables), set(rows.slots)) == (set(), set())

    def test_table_and_slot_with_the_same_name_are_two_rows(self) -> None:
        with self.opener()() as store:
            assert store.compare_and_set(TableRow("default-0", dirty=1))
            assert store.compare_and_set(SlotRow(SLOT, gen=5))
            rows = store.load(ALL_ROWS)
            assert (rows.tables["default-0"].dirty, rows.slots[SLOT].gen) == (1, 5)

    def test_another_client_reads_a_written_row(self) -> None:
        opened = self.opener()
        with opened() as writer, opened() as reader:
            writer.compare_and_set(TableRow("t", dirty=1))
            assert reader.load(ALL_ROWS).tables["t"].dirty == 1

    def test_change_token_changes_with_a_notice_of_any_writer(self) -> None:
        opened = self.opener()
        with opened() as store, opened() as other_store:
            seen = [store.change_token()]
            assert store.change_token() == seen[0]
            other_store.compare_and_set(TableRow("t", dirty=1))
            seen.append(store.change_token())
            assert store.change_token() == seen[1]
            store.compare_and_set(replace(store.load(ALL_ROWS).tables["t"], dirty=2))
            seen.append(store.change_token())
            assert len(set(seen)) == 3

    def test_concurrent_processes_lose_no_notice(self) -> None:
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
            assert store.load(ALL_ROWS).tables["t"].dirty == WRITERS * self.NOTICES

    def test_threads_can_share_a_store(self) -> None:
        with self.opener()() as store:

            def notice() -> None:
                for _ in range(self.NOTICES):
                    apply(store, Noticed(1.0, "t", OPTIONS), POLICY)

            threads = [Thread(target=notice) for _ in range(WRITERS)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert store.load(ALL_ROWS).tables["t"].dirty == WRITERS * self.NOTICES

    def test_results_are_ordered_and_continue_from_a_cursor(self) -> None:
        with self.opener()() as store:
            for at, table in enumerate(["a", "b", "a"]):
                store.record_result(_result(table, at))
            page = store.results_since("")
            assert [run.table_result.table for run in page.results] == ["a", "b", "a"]
            assert store.results_since(page.cursor).results == ()
            assert store.last_cursor() == page.cursor
            store.record_result(_result("c", 3))
            assert store.results_since(page.cursor).results == (_result("c", 3),)

    def test_oldest_results_of_a_table_are_removed_and_other_tables_keep_theirs(self) -> None:
        with self.opener()() as store:
            store.record_result(_result("quiet", 100))
            for at in range(self.KEPT_RESULTS + 3):
                store.record_result(_result("busy", at))
            kept = [run.table_result for run in store.results_since("").results]
            assert [result.seconds for result in kept if result.table == "busy"] == [3.0, 4.0, 5.0, 6.0, 7.0]
            assert [result.table for result in kept].count("quiet") == 1

    def test_letters_are_listed_oldest_first_until_they_are_removed(self) -> None:
        late, early = _letter(2.0, "x" * MAX_BODY_BYTES), _letter(1.0, 'bad \x00 "\ud800" event')
        with self.opener()() as store:
            store.put_letter(late)
            store.put_letter(early)
            assert store.letters() == (early, late)
            assert store.remove_letter(early.id)
            assert not store.remove_letter(early.id)
            assert store.letters() == (late,)

    def test_duplicate_event_is_one_letter_with_the_latest_reason(self) -> None:
        again = new_letter("sqs", "another reason", 3.0, "event")
        with self.opener()() as store:
            store.put_letter(_letter(1.0, "event"))
            store.put_letter(again)
            assert store.letters() == (again,)

    def test_oldest_letters_are_removed_beyond_the_limit(self) -> None:
        with self.opener()() as store:
            for at in range(self.KEPT_LETTERS + 2):
                store.put_letter(_letter(float(at)))
            assert [letter.received_at for letter in store.letters()] == [2.0, 3.0, 4.0, 5.0]

    def test_letters_expire(self) -> None:
        with self.opener()() as store:
            store.put_letter(_letter(1.0))
            store.put_letter(_letter(2.0 + MAX_AGE_SECONDS))
            assert [letter.received_at for letter in store.letters()] == [2.0 + MAX_AGE_SECONDS]

    def test_removed_letters_do_not_count_towards_the_limit(self) -> None:
        with self.opener()() as store:
            for at in range(self.KEPT_LETTERS):
                store.put_letter(_letter(float(at)))
            for removed in (2.0, 3.0):
                assert store.remove_letter(_letter(removed).id)
            for new in (8.0, 9.0):
                store.put_letter(_letter(new))
            assert [letter.received_at for letter in store.letters()] == [0.0, 1.0, 8.0, 9.0]

    def test_letter_older_than_all_kept_letters_is_dropped(self) -> None:
        with self.opener()() as store:
            for at in range(self.KEPT_LETTERS):
                store.put_letter(_letter(10.0 + at))
            store.put_letter(_letter(1.0))
            assert [letter.received_at for letter in store.letters()] == [10.0, 11.0, 12.0, 13.0]

    def test_letters_are_neither_rows_nor_results(self) -> None:
        with self.opener()() as store:
            store.put_letter(_letter(1.0))
            rows = store.load(ALL_ROWS)
            assert (rows.tables, rows.slots, store.results_since("").results) == ({}, {}, ())
