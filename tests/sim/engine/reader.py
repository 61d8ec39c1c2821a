"""Reads a snapshot of the mirror from its manifests and files, without the product's readers."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table.snapshots import Snapshot
from pyroaring import BitMap64

from spark_job.pyiceberg_private.v3_fields import content_span, referenced_data_file
from tests.sim.engine import snapshots
from tests.sim.engine.journal import Row, row_of
from tests.sim.engine.memory_io import MemoryIO
from tests.sim.engine.setting import Key

RowLocation = tuple[str, int]
FLAG = "_is_deleted"


class Divergence(AssertionError):
    """An invariant is violated."""


@dataclass
class Contents:
    """A snapshot as a reader sees it: live rows by location, files, and deleted positions by data file."""

    rows: dict[RowLocation, tuple[Key, Row]] = field(default_factory=dict)
    data: dict[str, DataFile] = field(default_factory=dict)
    deletes: list[DataFile] = field(default_factory=list)
    deleted: dict[str, set[int]] = field(default_factory=dict)
    paths: set[str] = field(default_factory=set)

    def by_key(self) -> dict[Key, Row]:
        """Return the rows by key; raises if a key has two."""
        found: dict[Key, Row] = {}
        for key, row in self.rows.values():
            if key in found:
                raise Divergence(f"the key {key} has two rows: {found[key]} and {row}")
            found[key] = row
        return found

    def locations(self) -> dict[Key, RowLocation]:
        """Return the location of each key's row."""
        return {key: location for location, (key, _) in self.rows.items()}


class Reader:
    """Reads snapshots and caches their files, which never change."""

    def __init__(self, io: MemoryIO, key_names: list[str]) -> None:
        self._io, self._names = io, key_names
        self._rows: dict[str, list[tuple[Key, Row]]] = {}
        self._deletes: dict[tuple[str, int | None], list[RowLocation]] = {}

    def read(self, snapshot: Snapshot | None) -> Contents:
        """Read a snapshot; every file that it references must exist."""
        contents = Contents()
        if snapshot is None:
            return contents
        try:
            self._list_files(snapshot, contents)
        except FileNotFoundError as error:
            raise Divergence(
                f"{error} is missing, although snapshot {snapshot.snapshot_id} references it"
            ) from error
        for path in contents.paths:
            if path not in self._io.files:
                raise Divergence(f"{path} is missing, although snapshot {snapshot.snapshot_id} references it")
        self._apply_deletes(contents)
        for path, file in contents.data.items():
            rows = self._read_rows(path)
            if len(rows) != file.record_count:
                raise Divergence(f"{path} has {len(rows)} rows, the manifest has {file.record_count}")
            deleted = contents.deleted.get(path, ())
            contents.rows.update(((path, at), row) for at, row in enumerate(rows) if at not in deleted)
        return contents

    def _list_files(self, snapshot: Snapshot, contents: Contents) -> None:
        contents.paths.add(snapshot.manifest_list)
        for manifest in snapshots.manifests_of(self._io, snapshot):
            contents.paths.add(manifest.manifest_path)
            for entry in snapshots.entries_of(self._io, manifest):
                file = entry.data_file
                if file.content is DataFileContent.DATA:
                    if file.file_path in contents.data:
                        raise Divergence(f"{file.file_path} is in the snapshot twice")
                    contents.data[file.file_path] = file
                else:
                    contents.deletes.append(file)
        contents.paths.update(contents.data, (file.file_path for file in contents.deletes))

    def _apply_deletes(self, contents: Contents) -> None:
        vectors = [file for file in contents.deletes if file.file_format is FileFormat.PUFFIN]
        with_vector = [referenced_data_file(file) for file in vectors]
        if len(set(with_vector)) != len(with_vector):
            raise Divergence("a data file has two deletion vectors")
        for file in contents.deletes:
            vector = file.file_format is FileFormat.PUFFIN
            locations = self._read_vector(file) if vector else self._read_deletes(file)
            if len(locations) != file.record_count:
                raise Divergence(f"{file.file_path}: {len(locations)} deletes, not {file.record_count}")
            for path, at in locations:
                if path not in contents.data:
                    if vector:
                        raise Divergence(f"a deletion vector for {path}, which is not in the snapshot")
                    continue
                if not 0 <= at < contents.data[path].record_count:
                    raise Divergence(f"{path}: row {at} is deleted, but does not exist")
                if vector or path not in with_vector:
                    deleted = contents.deleted.setdefault(path, set())
                    if at in deleted:
                        raise Divergence(f"{path}: row {at} is deleted twice")
                    deleted.add(at)

    def _read_rows(self, path: str) -> list[tuple[Key, Row]]:
        if path not in self._rows:
            table = pq.ParquetFile(pa.BufferReader(self._io.read(path))).read()
            keys: Any = zip(*(table[name].to_pylist() for name in self._names), strict=True)
            values = [table[name].to_pylist() for name in "vcx"]
            if FLAG in table.column_names:
                values.append(table[FLAG].to_pylist())
            rows = zip(*values, strict=True)
            self._rows[path] = [(_plain(key), row_of(*row)) for key, row in zip(keys, rows, strict=True)]
        return self._rows[path]

    def _read_deletes(self, file: DataFile) -> list[RowLocation]:
        key = file.file_path, None
        if key not in self._deletes:
            table = pq.ParquetFile(pa.BufferReader(self._io.read(file.file_path))).read()
            self._deletes[key] = list(
                zip(table["file_path"].to_pylist(), table["pos"].to_pylist(), strict=True)
            )
        return self._deletes[key]

    def _read_vector(self, file: DataFile) -> list[RowLocation]:
        span, target = content_span(file), referenced_data_file(file)
        assert span is not None
        assert target is not None
        key = file.file_path, span[0]
        if key not in self._deletes:
            blob = self._io.read(file.file_path)[span[0] : span[0] + span[1]]
            (length,) = struct.unpack_from(">I", blob)
            bitmap = BitMap64.deserialize(blob[8 : 4 + length])
            self._deletes[key] = [(target, int(at)) for at in bitmap]
        return self._deletes[key]


def _plain(key: tuple[Any, ...]) -> Key:
    return tuple(part.bytes if hasattr(part, "bytes") else part for part in key)
