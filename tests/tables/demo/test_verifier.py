from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from icemirror.cli.demo.change_generator import Events
from icemirror.cli.demo.oracle.mirror_readers import read_by_duckdb, read_by_pyiceberg
from icemirror.cli.demo.oracle.verifier import OraclesDisagree
from tests.oracle import Schedule, World
from tests.oracle.key_pools import KEY_KINDS
from tests.oracle.naive_mirror import overwrite_mirror

_FEW_COLUMNS = ("double", "words", "amount")
_OP = {"I": 0, "U": 1, "D": 2}


@pytest.fixture
def world(catalog: SqlCatalog) -> World:
    return World(catalog, "ns", Schedule(11, "int", columns=_FEW_COLUMNS))


def _commit_events(world: World, *files: str) -> int:
    """Commit events, one file per text: `U5@7` updates key 5 with sequence 7. Return the snapshot id.

    The revision of an event is 1000 times its sequence plus its position in the file.
    """
    tables = []
    for file in files:
        columns: list[list[int]] = [[], [], [], [], []]
        for number, word in enumerate(file.split()):
            key, sequence = word[1:].split("@")
            values = (int(key), 1000 * int(sequence) + number, _OP[word[0]], int(sequence), 0)
            for column, value in zip(columns, values, strict=True):
                column.append(value)
        ints = [pa.array(column, pa.int64()).to_numpy() for column in columns[:3]]
        unsigned = [pa.array(column, pa.uint64()).to_numpy() for column in columns[3:]]
        tables.append(world.shape.to_arrow(Events(*ints, *unsigned)))
    return world.changelog.commit(tables).snapshot_id


def _revisions(world: World, at: int | None = None, files_done: int | None = None) -> list[int]:
    revisions: list[int] = world.expected_table(at, files_done).column("revision").to_pylist()
    return sorted(revisions)


@pytest.mark.parametrize("key", KEY_KINDS)
def test_oracles_agree_and_a_naive_mirror_passes_for_every_kind_of_key(catalog: SqlCatalog, key: str) -> None:
    world = World(catalog, "ns", Schedule(len(key), key))
    head = world.commit_many(2)
    mirror = overwrite_mirror(catalog, world, world.expected_table(), head)
    readers = {"PyIceberg": read_by_pyiceberg, "DuckDB": read_by_duckdb}
    until = world.judge.until_cursor(world.subject, mirror)
    for name, verdict in world.judge.verify_by_each_reader(world.subject, mirror, until, readers).items():
        assert verdict.equal, f"{name}: {verdict}"


def test_every_snapshot_of_a_mirror_is_judged_at_its_cursor(catalog: SqlCatalog, world: World) -> None:
    for commits in (2, 1, 3):
        head = world.commit_many(commits)
        mirror = overwrite_mirror(catalog, world, world.expected_table(), head)
    verdicts = world.verdicts_of_history(mirror)
    assert len(verdicts) == 3
    assert all(verdict.equal for verdict in verdicts.values())


@pytest.mark.parametrize("seed", range(20))
def test_oracles_agree_over_many_seeds(catalog: SqlCatalog, seed: int) -> None:
    kinds = sorted(KEY_KINDS)
    schedule = Schedule(seed, kinds[seed % len(kinds)], columns=("double", "place"), largest_commit=300)
    world = World(catalog, "ns", schedule)
    world.commit_many(4)
    for commit in world.journal.commits(world.subject):
        world.expected(commit.snapshot_id)


def test_null_list_of_structs_is_judged_by_duckdb(catalog: SqlCatalog) -> None:
    world = World(catalog, "ns", Schedule(4, columns=("maybe_parts",)))
    head = world.commit_many(3)
    assert None in world.expected_table().column("maybe_parts").to_pylist()
    assert world.verdict(overwrite_mirror(catalog, world, world.expected_table(), head)).equal


@pytest.mark.parametrize(
    ("files", "winner"),
    [
        (["U1@5 U1@4"], 5000),  # a late event
        (["U1@4 D1@5 I1@6"], 6002),  # deleted, then inserted
        (["D1@6 I1@5"], None),  # a late insert does not restore a deleted row
        (["U1@5 U1@5"], 5001),  # equal sequences: the later position wins
        (["U1@5", "I2@9 U1@5"], 5001),  # equal sequences: the later file wins
        (["D1@5"], None),  # a delete of an unknown key
    ],
)
def test_newest_event_of_a_key_wins(world: World, files: list[str], winner: int | None) -> None:
    _commit_events(world, *files)
    revisions = [revision for revision in _revisions(world) if revision != 9000]
    assert revisions == ([] if winner is None else [winner])


def test_later_commit_wins_at_equal_sequences(world: World) -> None:
    first = _commit_events(world, "I3@5 U3@5 U3@5")
    _commit_events(world, "U3@5")
    assert _revisions(world, first) == [5002]
    assert _revisions(world) == [5000]


def test_expected_rows_are_available_after_each_file(world: World) -> None:
    first = _commit_events(world, "I1@1")
    second = _commit_events(world, "U1@2", "U1@3", "D1@4")
    assert _revisions(world, first) == [1000]
    assert [_revisions(world, second, done) for done in range(4)] == [[1000], [2000], [3000], []]
    assert _revisions(world, second) == []


def _replace(table: pa.Table, column: str, row: int, value: Any) -> pa.Table:
    values = table.column(column).to_pylist()
    values[row] = value
    at = table.schema.get_field_index(column)
    return table.set_column(at, table.schema.field(at), pa.array(values, table.schema.field(at).type))


def _row_with(rows: pa.Table, text: str) -> int:
    """Return the first row whose double has this text; −0.0 and 0.0 differ."""
    return [str(value) for value in rows.column("double").to_pylist()].index(text)


_PLANTED: dict[str, tuple[Callable[[pa.Table], pa.Table], tuple[int, int, int]]] = {
    "wrong value": (lambda rows: _replace(rows, "revision", 3, -7), (0, 0, 1)),
    "0.0 for −0.0": (lambda rows: _replace(rows, "double", _row_with(rows, "-0.0"), 0.0), (0, 0, 1)),
    "−0.0 for 0.0": (lambda rows: _replace(rows, "double", _row_with(rows, "0.0"), -0.0), (0, 0, 1)),
    "NULL for NaN": (lambda rows: _replace(rows, "double", _row_with(rows, "nan"), None), (0, 0, 1)),
    "NaN for NULL": (lambda rows: _replace(rows, "double", _row_with(rows, "None"), float("nan")), (0, 0, 1)),
    "missing row": (lambda rows: rows.slice(1), (1, 0, 0)),
    "duplicate row": (lambda rows: pa.concat_tables([rows, rows.slice(2, 1)]), (0, 1, 0)),
    "unknown key": (lambda rows: _replace(rows, "id", 0, 123_456_789), (1, 1, 0)),
    "empty mirror": (lambda rows: rows.slice(0, 0), (40, 0, 0)),
}


@pytest.mark.parametrize("planted", _PLANTED)
def test_planted_difference_is_found(catalog: SqlCatalog, world: World, planted: str) -> None:
    head = _commit_events(world, " ".join(f"I{key}@{key + 1}" for key in range(40)))
    correct = world.expected_table()
    assert world.verdict(overwrite_mirror(catalog, world, correct, head)).equal

    plant, counts = _PLANTED[planted]
    verdict = world.verdict(overwrite_mirror(catalog, world, plant(correct), head))
    assert (verdict.missing, verdict.extra, verdict.different) == counts


def test_mirror_that_applied_a_late_event_is_found(catalog: SqlCatalog, world: World) -> None:
    old = _commit_events(world, "I1@3 I2@3 I3@3")
    wrong = world.expected_table(old)
    _commit_events(world, "U2@9")
    head = _commit_events(world, "U2@3")
    assert world.verdict(overwrite_mirror(catalog, world, world.expected_table(), head)).equal
    verdict = world.verdict(overwrite_mirror(catalog, world, wrong, head))
    assert (verdict.missing, verdict.extra, verdict.different) == (0, 0, 1)


def test_cursor_one_commit_ahead_is_found(catalog: SqlCatalog, world: World) -> None:
    first = _commit_events(world, "I1@1")
    second = _commit_events(world, "I2@2")
    mirror = overwrite_mirror(catalog, world, world.expected_table(first), second)
    assert world.verdict(mirror).missing == 1
    assert world.verdict(mirror, at=first).equal


def test_missing_event_in_the_journal_makes_the_oracles_disagree(world: World) -> None:
    _commit_events(world, "I1@1 I2@2")
    world.journal.connection.execute("DELETE FROM events WHERE pos = 1")
    with pytest.raises(OraclesDisagree, match="the files differ from the journal"):
        world.expected()


def test_mirror_without_a_column_is_refused(catalog: SqlCatalog, world: World) -> None:
    head = _commit_events(world, "I1@1")
    mirror = overwrite_mirror(catalog, world, world.expected_table(), head)
    with mirror.update_schema() as update:
        update.delete_column("amount")
    with pytest.raises(LookupError, match="no column amount"):
        world.verdict(mirror)
