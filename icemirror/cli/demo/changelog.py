"""Writes events as a CDC writer does, a snapshot a flush of Snappy Parquet, and journals them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NamespaceAlreadyExistsError, NoSuchTableError
from pyiceberg.io.pyarrow import parquet_file_to_data_file
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.table import Table

from icemirror.cli.demo.oracle.journal import Commit, Journal
from icemirror.cli.demo.oracle.subject import Subject


@dataclass(frozen=True)
class Changelog:
    """An append-only changelog table and its journal, written together."""

    subject: Subject
    table: Table
    journal: Journal

    @classmethod
    def open(
        cls, catalog: Catalog, identifier: tuple[str, ...], subject: Subject, schema: Schema, journal: Journal
    ) -> Changelog:
        """The changelog, made if it is not there; a commit that was interrupted is settled."""
        try:
            table = catalog.load_table(identifier)
        except NoSuchTableError:
            make_namespace(catalog, identifier[:-1])
            table = catalog.create_table(identifier, schema, properties={"format-version": "2"})
        changelog = cls(subject, table, journal)
        changelog.settle()
        return changelog

    def commit(self, files: Sequence[pa.Table]) -> Commit:
        """One snapshot with these files, in this order; none gives an empty snapshot."""
        try:
            commit = self._append(files)
        except Exception:
            self.settle()
            raise
        self.journal.mark_landed(self.subject, commit)
        return commit

    def settle(self) -> None:
        """Keeps or drops what the journal has of an interrupted commit: the changelog tells if it landed."""
        snapshots = self.table.refresh().snapshots()
        self.journal.settle(self.subject, (snapshot.snapshot_id for snapshot in snapshots))

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
        # Numbered with leading zeros: by name, by place in the manifest or by ordinal, the order is the same.
        name = f"{len(self.table.metadata.snapshots):08d}-{file_no:05d}-{snapshot_id}-{uuid4()}.parquet"
        return f"{self.table.location()}/data/{name}"

    def _write(self, path: str, events: pa.Table) -> DataFile:
        with self.table.io.new_output(path).create() as stream:
            pq.write_table(events, stream, compression="snappy")
        return parquet_file_to_data_file(self.table.io, self.table.metadata, path)


def make_namespace(catalog: Catalog, namespace: tuple[str, ...]) -> None:
    """Makes the namespace unless it is there."""
    try:
        catalog.create_namespace(namespace)
    except NamespaceAlreadyExistsError:
        return


def _local_path(path: str) -> str:
    return path.removeprefix("file://")
