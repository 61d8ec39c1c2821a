"""Compares a mirror with what both oracles expect."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice, zip_longest

import pyarrow as pa
from pyiceberg.table import Table

from icemirror.cli.demo.oracle.canonical import describe_cells, differing_cells, render_rows
from icemirror.cli.demo.oracle.duckdb_oracle import has_duckdb, live_rows_of_files
from icemirror.cli.demo.oracle.journal import Journal, JournalPosition, replay_journal
from icemirror.cli.demo.oracle.mirror_readers import MirrorReader, read_by_pyiceberg, read_cursor
from icemirror.cli.demo.oracle.source_table import SourceTable

EXAMPLES = 5


@dataclass(frozen=True)
class Comparison:
    """The result of comparing rows: counts of differences, with a few examples."""

    expected_rows: int
    found_rows: int
    missing: int = 0
    extra: int = 0
    different: int = 0
    examples: tuple[str, ...] = ()

    @property
    def equal(self) -> bool:
        """True if both sides contain the same multiset of rows."""
        return not (self.missing or self.extra or self.different)

    def __str__(self) -> str:
        if self.equal:
            return f"equal: {self.expected_rows:,} rows"
        counts = f"{self.missing:,} missing, {self.extra:,} extra, {self.different:,} different"
        rows = f"{self.expected_rows:,} rows expected, {self.found_rows:,} found"
        return "; ".join([f"{counts} ({rows})", *self.examples])


def compare_rows(
    expected: Mapping[bytes, bytes], rows: Iterable[tuple[bytes, bytes]], columns: Sequence[str]
) -> Comparison:
    """Compare key → row with (key, row) pairs. A key's second row always counts as extra."""
    found_rows = 0
    matched_keys: set[bytes] = set()
    unmatched: list[tuple[bytes, bytes]] = []
    for key, row in rows:
        found_rows += 1
        if key not in matched_keys and expected.get(key) == row:
            matched_keys.add(key)
        else:
            unmatched.append((key, row))

    extra: list[bytes] = []
    different: list[tuple[bytes, bytes]] = []
    for key, row in unmatched:
        if key in matched_keys or key not in expected:
            extra.append(key)
        else:
            matched_keys.add(key)
            different.append((key, row))
    missing = [key for key in expected if key not in matched_keys]

    describe_different = (
        f"different {describe_cells(key)} in {', '.join(differing_cells(expected[key], row, columns))}"
        for key, row in different
    )
    describe_missing = (f"missing {describe_cells(key)}" for key in missing)
    describe_extra = (
        f"extra {describe_cells(key)}" + (", a second row of its key" if key in matched_keys else "")
        for key in extra
    )
    interleaved = chain.from_iterable(zip_longest(describe_different, describe_missing, describe_extra))
    return Comparison(
        expected_rows=len(expected),
        found_rows=found_rows,
        missing=len(missing),
        extra=len(extra),
        different=len(different),
        examples=tuple(islice((example for example in interleaved if example), EXAMPLES)),
    )


class OraclesDisagree(AssertionError):
    """The oracles contradict each other, so the mirror cannot be verified."""


@dataclass(frozen=True)
class MirrorVerifier:
    """Verifies mirrors with the generator's journal; `use_duckdb`: also with DuckDB over the changelog files."""

    journal: Journal
    use_duckdb: bool = True

    @classmethod
    def from_journal(cls, journal: Journal) -> MirrorVerifier:
        """Return a verifier that uses both oracles if DuckDB is installed."""
        return cls(journal, use_duckdb=has_duckdb())

    def expected(self, subject: SourceTable, until: JournalPosition) -> dict[bytes, bytes]:
        """Return key → row at a point of the changelog, on which both oracles agree."""
        replayed = replay_journal(self.journal.connection, subject, until)
        if not self.use_duckdb:
            return replayed
        live_rows = live_rows_of_files(subject, self.journal.files(subject, until))
        agreement = compare_table(replayed, live_rows, subject)
        if not agreement.equal:
            raise OraclesDisagree(self._find_wrong_oracle(subject, until, replayed, agreement))
        return replayed

    def verify_rows(self, subject: SourceTable, rows: pa.Table, until: JournalPosition) -> Comparison:
        """Compare rows with the changelog at a point."""
        return compare_table(self.expected(subject, until), rows, subject)

    def verify_mirror(
        self,
        subject: SourceTable,
        mirror: Table,
        snapshot_id: int | None = None,
        until: JournalPosition | None = None,
        read: MirrorReader = read_by_pyiceberg,
    ) -> Comparison:
        """Compare a mirror's snapshot with the changelog at `until`; default: at the snapshot's cursor."""
        position = until or self.until_cursor(subject, mirror, snapshot_id)
        return self.verify_rows(subject, read(mirror, subject, snapshot_id), position)

    def verify_by_each_reader(
        self, subject: SourceTable, mirror: Table, until: JournalPosition, readers: Mapping[str, MirrorReader]
    ) -> dict[str, Comparison]:
        """Compare the mirror's head as each reader reads it; the oracles run once."""
        expected = self.expected(subject, until)
        return {
            name: compare_table(expected, read(mirror, subject, None), subject)
            for name, read in readers.items()
        }

    def until_cursor(
        self, subject: SourceTable, mirror: Table, snapshot_id: int | None = None
    ) -> JournalPosition:
        """Return the point of the changelog that a mirror's snapshot has reached, by its cursor."""
        cursor = read_cursor(mirror, snapshot_id)
        if cursor is None:
            raise LookupError(f"{subject.name}: mirror snapshot {snapshot_id} carries no cursor")
        return self.journal.position_after(subject, cursor.source.snapshot_id, cursor.source.files_done)

    def _find_wrong_oracle(
        self,
        subject: SourceTable,
        until: JournalPosition,
        replayed: dict[bytes, bytes],
        agreement: Comparison,
    ) -> str:
        """Return which oracle is wrong, by a third, slow computation in plain Python."""
        recomputed = _greatest_events(self.journal, subject, until)
        wrong_oracle = "the replay of the journal in SQLite"
        if recomputed == replayed:
            wrong_oracle = "DuckDB over the changelog files, or the files differ from the journal"
        return (
            f"{subject.name}: the oracles disagree; the wrong one is {wrong_oracle}. "
            f"Files against journal: {agreement}"
        )


def compare_table(expected: Mapping[bytes, bytes], rows: pa.Table, subject: SourceTable) -> Comparison:
    """Compare key → row with rows of a reader."""
    images = render_rows(rows, subject.columns)
    # Rows of different keys differ, so nothing is hidden by a set; only a difference needs the keys.
    if len(images) == len(expected) and set(images) == set(expected.values()):
        return Comparison(len(expected), len(images))
    keys = render_rows(rows, subject.key_columns)
    return compare_rows(expected, zip(keys, images, strict=True), subject.columns.names)


def _greatest_events(journal: Journal, subject: SourceTable, until: JournalPosition) -> dict[bytes, bytes]:
    events = journal.connection.execute(
        "SELECT sequence, commit_no, file_no, pos, operation, key, image FROM events WHERE subject = ?",
        (subject.name,),
    ).fetchall()
    events_before = [event for event in events if (event[1], event[2]) < (until.commit_no, until.files)]
    last_by_key = {key: (operation, image) for *_, operation, key, image in sorted(events_before)}
    return {key: image for key, (operation, image) in last_by_key.items() if operation != "DELETE"}
