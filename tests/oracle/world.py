"""A changelog that follows a schedule, its journal, and the judge of its mirrors."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from icemirror.cli.demo.oracle.duckdb_oracle import live_rows_of_files
from icemirror.cli.demo.oracle.journal import Journal, JournalPosition
from icemirror.cli.demo.oracle.mirror_readers import read_by_duckdb, read_by_pyiceberg, read_cursor
from icemirror.cli.demo.oracle.verifier import Comparison, MirrorVerifier
from icemirror.cli.demo.writer import ChangelogWriter
from icemirror.tables.cursor import Cursor
from tests.oracle.schedules import Schedule
from tests.oracle.value_pools import MISREAD_BY_PYICEBERG


class World:
    """`commit_next` appends to the changelog; `verdict` compares a mirror with both oracles.

    The journal is kept in memory unless a path is given. `use_duckdb=False` omits the second oracle:
    required if the files are not on this machine's disk, and faster.
    """

    def __init__(
        self,
        catalog: Catalog,
        namespace: str,
        schedule: Schedule,
        *,
        changelog_name: str = "world_changelog",
        journal_path: Path | None = None,
        use_duckdb: bool = True,
    ) -> None:
        self.schedule = schedule
        self.shape = schedule.shape
        self.subject = self.shape.subject
        self.identifier = (namespace, changelog_name)
        self.journal = Journal.open(journal_path)
        self.judge = MirrorVerifier(self.journal, use_duckdb)
        self.changelog = ChangelogWriter.open(
            catalog, self.identifier, self.subject, self.shape.schema, self.journal
        )
        self._commits = schedule.commits()
        misread = MISREAD_BY_PYICEBERG.intersection(schedule.columns)
        self._reader = read_by_duckdb if misread else read_by_pyiceberg

    def close(self) -> None:
        """Close the journal."""
        self.journal.close()

    @property
    def name(self) -> str:
        """The changelog's dotted name."""
        return ".".join(self.identifier)

    def commit_next(self) -> int:
        """Append the schedule's next commit; return its changelog snapshot id."""
        files = [self.shape.to_arrow(events) for events in next(self._commits)]
        return self.changelog.commit(files).snapshot_id

    def commit_many(self, count: int) -> int:
        """Append several commits; return the snapshot id of the last."""
        return [self.commit_next() for _ in range(count)][-1]

    def expected(
        self, at_snapshot_id: int | None = None, files_done: int | None = None
    ) -> dict[bytes, bytes]:
        """Return key → row as canonical bytes, on which both oracles agree; default: at the changelog's head."""
        return self.judge.expected(
            self.subject, self.journal.position_after(self.subject, at_snapshot_id, files_done)
        )

    def expected_table(self, at_snapshot_id: int | None = None, files_done: int | None = None) -> pa.Table:
        """Return the same rows as Arrow, unordered."""
        until = self.journal.position_after(self.subject, at_snapshot_id, files_done)
        self.judge.expected(self.subject, until)
        return live_rows_of_files(self.subject, self.journal.files(self.subject, until))

    def verdict(
        self, mirror: Table, snapshot_id: int | None = None, at: Cursor | int | None = None
    ) -> Comparison:
        """Compare a mirror's snapshot (default: its head) with the changelog at `at`.

        `at` is a cursor or a changelog snapshot id; default: the cursor of the mirror's snapshot.
        """
        return self.judge.verify_mirror(self.subject, mirror, snapshot_id, self._until(at), self._reader)

    def verdict_of_rows(self, rows: pa.Table, at: Cursor | int | None = None) -> Comparison:
        """Compare rows from any reader with the changelog at `at` (default: its head)."""
        until = self._until(at) or self.journal.position_after(self.subject, None)
        return self.judge.verify_rows(self.subject, rows, until)

    def verdicts_of_history(self, mirror: Table) -> dict[int, Comparison]:
        """Compare each snapshot of the mirror that has a cursor with the changelog at that cursor."""
        return {
            snapshot.snapshot_id: self.verdict(mirror, snapshot.snapshot_id)
            for snapshot in mirror.snapshots()
            if read_cursor(mirror, snapshot.snapshot_id) is not None
        }

    def _until(self, at: Cursor | int | None) -> JournalPosition | None:
        match at:
            case None:
                return None
            case Cursor():
                source = at.source
                return self.journal.position_after(self.subject, source.snapshot_id, source.files_done)
            case snapshot_id:
                return self.journal.position_after(self.subject, snapshot_id)
