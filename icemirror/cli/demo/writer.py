"""The shop's CDC writer: copies the tables once, then keeps flushing changes to their changelogs and the journal."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from threading import Event
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NamespaceAlreadyExistsError, NoSuchTableError
from pyiceberg.io.pyarrow import parquet_file_to_data_file
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.table import Table

from icemirror.cli.demo.change_generator import ChangeGenerator, Events, ShopTable
from icemirror.cli.demo.oracle.journal import Commit, Journal
from icemirror.cli.demo.oracle.source_table import SourceTable
from icemirror.cli.demo.progress import CommittedEvents
from icemirror.cli.demo.shop import SHOP
from icemirror.cli.demo.workspace import NAMESPACE, DemoMarker


@dataclass(frozen=True)
class ChangelogWriter:
    """Writes an append-only changelog table and its journal together."""

    subject: SourceTable
    table: Table
    journal: Journal

    @classmethod
    def open(
        cls,
        catalog: Catalog,
        identifier: tuple[str, ...],
        subject: SourceTable,
        schema: Schema,
        journal: Journal,
    ) -> ChangelogWriter:
        """Open the changelog, created if missing, and resolve an interrupted commit."""
        try:
            table = catalog.load_table(identifier)
        except NoSuchTableError:
            create_namespace(catalog, identifier[:-1])
            table = catalog.create_table(identifier, schema, properties={"format-version": "2"})
        changelog = cls(subject, table, journal)
        changelog.resolve_interrupted()
        return changelog

    def commit(self, files: Sequence[pa.Table]) -> Commit:
        """Commit one snapshot with these files, in this order; without files an empty snapshot."""
        try:
            commit = self._append(files)
        except Exception:
            self.resolve_interrupted()
            raise
        self.journal.confirm_commit(self.subject, commit)
        return commit

    def resolve_interrupted(self) -> None:
        """Keep or drop an interrupted commit in the journal, depending on whether the changelog contains it."""
        snapshots = self.table.refresh().snapshots()
        self.journal.resolve_interrupted(self.subject, (snapshot.snapshot_id for snapshot in snapshots))

    def _append(self, files: Sequence[pa.Table]) -> Commit:
        with (
            self.table.transaction() as transaction,
            transaction.update_snapshot().fast_append() as append,
        ):
            paths = [self._new_path(append.snapshot_id, file_no) for file_no in range(len(files))]
            commit = self.journal.record(
                self.subject, append.snapshot_id, list(zip(map(_local_path, paths), files, strict=True))
            )
            for path, events in zip(paths, files, strict=True):
                append.append_data_file(self._write(path, events))
        return commit

    def _new_path(self, snapshot_id: int, file_no: int) -> str:
        # Leading zeros: the order of names equals the order in the manifest.
        name = f"{len(self.table.metadata.snapshots):08d}-{file_no:05d}-{snapshot_id}-{uuid4()}.parquet"
        return f"{self.table.location()}/data/{name}"

    def _write(self, path: str, events: pa.Table) -> DataFile:
        with self.table.io.new_output(path).create() as stream:
            pq.write_table(events, stream, compression="snappy")
        return parquet_file_to_data_file(self.table.io, self.table.metadata, path)


def create_namespace(catalog: Catalog, namespace: tuple[str, ...]) -> None:
    """Create the namespace unless it exists."""
    try:
        catalog.create_namespace(namespace)
    except NamespaceAlreadyExistsError:
        return


def _local_path(path: str) -> str:
    return path.removeprefix("file://")


COPY_COMMITS = 4
FLUSH_SECONDS = 2.0


@dataclass
class TableWriter:
    """Writes one table: its changelog, its generated changes, and the commits made."""

    shop_table: ShopTable
    changelog: ChangelogWriter
    generator: ChangeGenerator
    copied: int = 0
    commits: list[CommittedEvents] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The name of the table and of its mirror."""
        return self.shop_table.subject.name

    def commit(self, events: Events) -> int:
        """Commit one flush; return the number of its events."""
        commit = self.changelog.commit([self.shop_table.to_arrow(events)])
        self._record(commit.snapshot_id, time.time(), commit.events)
        return commit.events

    def continue_from_journal(self) -> None:
        """Continue after the commits of an earlier run."""
        committed_at = {
            snapshot.snapshot_id: snapshot.timestamp_ms / 1000
            for snapshot in self.changelog.table.snapshots()
        }
        for commit in self.changelog.journal.commits(self.changelog.subject):
            self._record(commit.snapshot_id, committed_at[commit.snapshot_id], commit.events)
            if self.copied < COPY_COMMITS:
                self.copied += 1
            else:
                self.generator.next_flush()

    def _record(self, snapshot_id: int, committed_at: float, events: int) -> None:
        earlier_events = self.commits[-1].events_so_far if self.commits else 0
        self.commits.append(CommittedEvents(snapshot_id, committed_at, earlier_events + events))


def open_writers(catalog: Catalog, journal: Journal, marker: DemoMarker) -> list[TableWriter]:
    """Return a writer per table of the shop, continuing after an earlier run."""
    writers = []
    for index, shop_table in enumerate(SHOP):
        identifier = (NAMESPACE, f"{shop_table.subject.name}_changelog")
        changelog = ChangelogWriter.open(catalog, identifier, shop_table.subject, shop_table.schema, journal)
        generator = ChangeGenerator(marker.seed * len(SHOP) + index, marker.rows, max(100, marker.rows // 25))
        writer = TableWriter(shop_table, changelog, generator)
        writer.continue_from_journal()
        writers.append(writer)
    return writers


def copy_tables(writers: list[TableWriter], on_commit: Callable[[TableWriter, int], None]) -> None:
    """Commit the initial copies that are missing."""
    for writer in writers:
        for events in writer.generator.initial_copy(COPY_COMMITS)[writer.copied :]:
            on_commit(writer, writer.commit(events))
            writer.copied += 1


def stream_changes(writers: list[TableWriter], stop: Event) -> None:
    """Flush the tables in turn until stopped. The number of a flush alone determines its events."""
    began = time.monotonic()
    for due, writer in flush_times(writers):
        if stop.wait(max(0.0, began + due - time.monotonic())):
            return
        writer.commit(writer.generator.next_flush())


def flush_times(writers: list[TableWriter]) -> Iterator[tuple[float, TableWriter]]:
    """Yield when to flush which table, in seconds from the start."""
    interval_seconds = FLUSH_SECONDS / len(writers)
    return ((flush * interval_seconds, writers[flush % len(writers)]) for flush in count())
