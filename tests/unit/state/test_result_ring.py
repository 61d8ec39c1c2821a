"""The last results as one document."""

from __future__ import annotations

from icemirror.result import TableResult
from icemirror.state.result_ring import Entry, append, dump_ring, load_ring, since
from icemirror.state.store import RunResult


def run(table: str, at: float = 1.0) -> RunResult:
    return RunResult("run-7", at, TableResult(table=table, outcome="merged", seconds=at))


def test_a_ring_comes_back_as_it_was() -> None:
    ring = append(append((), run("a"), 5, 10_000), run("b", 2.0), 5, 10_000)
    assert load_ring(dump_ring(ring)) == ring
    assert since(ring, "").results == (run("a"), run("b", 2.0))


def test_a_ring_that_is_too_long_loses_its_oldest() -> None:
    ring: tuple[Entry, ...] = ()
    for at in range(50):
        ring = append(ring, run("a", float(at)), 100, 1000)
    assert len(dump_ring(ring)) < 2500
    assert since(ring, "").results[-1] == run("a", 49.0)


def test_a_single_result_is_kept_whatever_its_length() -> None:
    assert len(append((), run("a" * 5000), 5, 1000)) == 1


def test_numbers_go_on_rising_when_a_ring_was_lost() -> None:
    lost = append((), run("a", 100.0), 5, 1000)
    cursor = since(lost, "").cursor
    assert since(append((), run("b", 101.0), 5, 1000), cursor).results == (run("b", 101.0),)


def test_numbers_rise_although_a_clock_goes_back() -> None:
    ring = append(append((), run("a", 100.0), 5, 1000), run("b", 50.0), 5, 1000)
    assert ring[1].number == ring[0].number + 1


def test_what_cannot_be_read_is_an_empty_ring() -> None:
    for body in ("", "{", "[]", '{"version": 2, "entries": []}', '{"version": 1, "entries": [[1]]}'):
        assert load_ring(body) == ()
