"""The last results, stored as one document."""

from __future__ import annotations

from icemirror.result import TableResult
from icemirror.stores.result_ring import StoredResult, append_result, dump_ring, load_ring, results_after
from icemirror.stores.store import TurnResult


def run(table: str, at: float = 1.0) -> TurnResult:
    return TurnResult("run-7", at, TableResult(table=table, outcome="merged", seconds=at))


def test_ring_is_equal_after_a_round_trip() -> None:
    ring = append_result(append_result((), run("a"), 5, 10_000), run("b", 2.0), 5, 10_000)
    assert load_ring(dump_ring(ring)) == ring
    assert results_after(ring, "").results == (run("a"), run("b", 2.0))


def test_ring_that_is_too_long_drops_its_oldest_results() -> None:
    ring: tuple[StoredResult, ...] = ()
    for at in range(50):
        ring = append_result(ring, run("a", float(at)), 100, 1000)
    assert len(dump_ring(ring)) < 2500
    assert results_after(ring, "").results[-1] == run("a", 49.0)


def test_single_result_is_kept_at_any_length() -> None:
    assert len(append_result((), run("a" * 5000), 5, 1000)) == 1


def test_numbers_increase_after_a_ring_is_lost() -> None:
    lost = append_result((), run("a", 100.0), 5, 1000)
    cursor = results_after(lost, "").cursor
    assert results_after(append_result((), run("b", 101.0), 5, 1000), cursor).results == (run("b", 101.0),)


def test_numbers_increase_if_the_clock_is_set_back() -> None:
    ring = append_result(append_result((), run("a", 100.0), 5, 1000), run("b", 50.0), 5, 1000)
    assert ring[1].number == ring[0].number + 1


def test_unreadable_ring_is_empty() -> None:
    for body in ("", "{", "[]", '{"version": 2, "entries": []}', '{"version": 1, "entries": [[1]]}'):
        assert load_ring(body) == ()
