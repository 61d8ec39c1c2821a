"""The two oracles asked together, and a mirror held against their answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyiceberg.table import Table

from icemirror.cli.demo.oracle.canonical import render_rows
from icemirror.cli.demo.oracle.duck import has_duckdb
from icemirror.cli.demo.oracle.journal import Journal, Until
from icemirror.cli.demo.oracle.mirror_rows import MirrorReader, read_by_pyiceberg, read_cursor
from icemirror.cli.demo.oracle.raw_files import live_rows_of_files
from icemirror.cli.demo.oracle.replay import replay_journal
from icemirror.cli.demo.oracle.subject import Subject
from icemirror.cli.demo.oracle.verdict import Verdict, compare_rows


class OraclesDisagree(AssertionError):
    """The judge is at fault, not the mirror: nothing can be said about it."""


@dataclass(frozen=True)
class Judge:
    """Knows the generator's journal; `ask_files` also asks DuckDB about the raw changelog files."""

    journal: Journal
    ask_files: bool = True

    @classmethod
    def of(cls, journal: Journal) -> Judge:
        """With both oracles where DuckDB is installed."""
        return cls(journal, ask_files=has_duckdb())

    def expected(self, subject: Subject, until: Until) -> dict[bytes, bytes]:
        """Key → row at that point of the changelog, on which both oracles agree."""
        replayed = replay_journal(self.journal.connection, subject, until)
        if not self.ask_files:
            return replayed
        raw = live_rows_of_files(subject, self.journal.files(subject, until))
        agreement = compare_table(replayed, raw, subject)
        if not agreement.equal:
            raise OraclesDisagree(self._name_the_odd_one(subject, until, replayed, agreement))
        return replayed

    def judge_rows(self, subject: Subject, rows: pa.Table, until: Until) -> Verdict:
        """Whether these rows are what the changelog says at that point."""
        return compare_table(self.expected(subject, until), rows, subject)

    def judge_mirror(
        self,
        subject: Subject,
        mirror: Table,
        snapshot_id: int | None = None,
        until: Until | None = None,
        read: MirrorReader = read_by_pyiceberg,
    ) -> Verdict:
        """A mirror's snapshot against the changelog at `until`; default: at the snapshot's own cursor."""
        at = until or self.until_cursor(subject, mirror, snapshot_id)
        return self.judge_rows(subject, read(mirror, subject, snapshot_id), at)

    def judge_by_each_reader(
        self, subject: Subject, mirror: Table, until: Until, readers: Mapping[str, MirrorReader]
    ) -> dict[str, Verdict]:
        """The mirror's head as each of the readers sees it; the oracles are asked once."""
        expected = self.expected(subject, until)
        return {
            name: compare_table(expected, read(mirror, subject, None), subject)
            for name, read in readers.items()
        }

    def until_cursor(self, subject: Subject, mirror: Table, snapshot_id: int | None = None) -> Until:
        """The point of the changelog that a mirror's snapshot says it has reached."""
        cursor = read_cursor(mirror, snapshot_id)
        if cursor is None:
            raise LookupError(f"{subject.name}: mirror snapshot {snapshot_id} carries no cursor")
        return self.journal.until(subject, cursor.source.snapshot_id, cursor.source.files_done)

    def _name_the_odd_one(
        self, subject: Subject, until: Until, replayed: dict[bytes, bytes], agreement: Verdict
    ) -> str:
        """A third, slow opinion in plain Python tells which oracle to look at."""
        plain = _greatest_events(self.journal, subject, until)
        odd = "the replay of the journal in SQLite"
        if plain == replayed:
            odd = "DuckDB over the changelog files, or the files are not what the journal says"
        return f"{subject.name}: the oracles disagree; odd is {odd}. Files against journal: {agreement}"


def compare_table(expected: Mapping[bytes, bytes], rows: pa.Table, subject: Subject) -> Verdict:
    """Compares key → row with the rows that somebody read."""
    images = render_rows(rows, subject.columns)
    # Rows of different keys differ, so nothing is hidden by a set; only a difference needs the keys.
    if len(images) == len(expected) and set(images) == set(expected.values()):
        return Verdict(len(expected), len(images))
    keys = render_rows(rows, subject.key_columns)
    return compare_rows(expected, zip(keys, images, strict=True), subject.columns.names)


def _greatest_events(journal: Journal, subject: Subject, until: Until) -> dict[bytes, bytes]:
    events = journal.connection.execute(
        "SELECT sequence, commit_no, file_no, pos, operation, key, image FROM events WHERE subject = ?",
        (subject.name,),
    ).fetchall()
    past = [event for event in events if (event[1], event[2]) < (until.commit_no, until.files)]
    last = {key: (operation, image) for *_, operation, key, image in sorted(past)}
    return {key: image for key, (operation, image) in last.items() if operation != "DELETE"}
