"""A mirror with history, an index with many segments and tombstones, and unmerged events."""

from __future__ import annotations

import random
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, clear_manifest_cache
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.typedef import Record

from icemirror.result import TableResult
from spark_job.commands.merge_table import merge_table
from spark_job.engine.engine import InProcessEngine, LazyEngine
from spark_job.iceberg.live_files import live_files, replaced_deletes
from spark_job.pipeline import Pipeline
from spark_job.write.deletes import _SCHEMA as POSITION_DELETES
from spark_job.write.write_vectors import write_vectors
from tests.sim.engine import snapshots
from tests.sim.engine.memory_catalog import MemoryCatalog, OneCatalog
from tests.sim.engine.process import CrashPoints, patched_product
from tests.sim.engine.setting import Key
from tests.sim.mutation.events import Event, EventGenerator, Oracle, Row, as_events, make_row
from tests.sim.mutation.kinds import VALUES, Kind
from tests.sim.mutation.store import Store
from tests.sim.mutation.targets import FileClass, targets_of

CHANGELOG, MIRROR = ("lab", "world_changelog"), ("lab", "world")
_SEED = 20_240
_ROUNDS = 6
_CODECS = ("none", "zstd", "snappy")


@dataclass(frozen=True)
class State:
    """All files and both tables before a merge; the expected rows after it, and after another round."""

    kind: Kind
    files: Mapping[str, bytes]
    tables: Mapping[tuple[str, ...], tuple[TableMetadata, str]]
    targets: Mapping[FileClass, Sequence[str]]
    rows: Mapping[Key, Row]
    afterwards: tuple[tuple[Event, ...], ...]
    rows_afterwards: Mapping[Key, Row]


class Lake:
    """One world in memory: catalog, files, and the pipeline on them."""

    def __init__(self, kind: Kind, state: State | None = None, *, remote: bool = False) -> None:
        self.kind = kind
        self.store = Store(remote=remote)
        self.catalog = MemoryCatalog(self.store, lambda _before, _after: None)
        if state is not None:
            self.store.files.update(state.files)
            self.catalog.tables.update(state.tables)
        settings = kind.setting.settings
        catalogs = OneCatalog(settings)
        catalogs._open[None] = self.catalog
        engine = LazyEngine(lambda: InProcessEngine(kind.setting.shards))
        self._pipeline = Pipeline(settings, catalogs, engine, "mutation", key_check_rows=None)
        snapshots.clear_caches()
        clear_manifest_cache()

    @property
    def changelog(self) -> Table:
        return self.catalog.load_table(CHANGELOG)

    @property
    def mirror(self) -> Table:
        return self.catalog.load_table(MIRROR)

    def append(self, *files: Sequence[Event]) -> list[str]:
        """Commit files to the changelog, like Iceberg's Java writers with a checksum in every page."""
        table = self.changelog
        data = [_write(table, as_events(self.kind, events), Record()) for events in files]
        snapshots.commit(table, "append", data)
        return [file.file_path for file in data]

    def merge(self) -> TableResult:
        return merge_table(self._pipeline, self._pipeline.settings.tables[0])

    def rows(self) -> dict[Key, Row]:
        """Return key → row, as PyIceberg reads them."""
        table = self.mirror.scan().to_arrow()
        names = (*self.kind.setting.key_names, *(name for name, _ in VALUES))
        found: dict[Key, Row] = {
            (row[0],): row[1:] for row in zip(*(table[name].to_pylist() for name in names), strict=True)
        }
        if len(found) != table.num_rows:
            raise AssertionError("a key has two rows")
        return found


@cache
def state_of(kind: Kind) -> State:
    """Return the state of a kind; equal in every process."""
    with patched_product(kind.setting, CrashPoints(), _SEED):
        return _build(kind)


def _build(kind: Kind) -> State:
    lake, oracle = Lake(kind), Oracle()
    dice = random.Random(_SEED)
    generator = EventGenerator(kind, dice)
    lake.catalog.create_table(CHANGELOG, kind.setting.schema, properties={"format-version": "2"})

    def append(*files: Sequence[Event]) -> list[str]:
        oracle.merge(lake.changelog.metadata.next_sequence_number(), files)
        return lake.append(*files)

    append(generator.insert(100), generator.insert(60))
    _merge(lake)
    for _ in range(_ROUNDS):
        known = range(generator.keys)
        append(
            [*generator.insert(5), *generator.change(dice.sample(known, 9))],
            generator.change(dice.sample(known, 4), late=40),
        )
        _merge(lake)
    if kind.foreign_writes:
        _write_foreign(lake, oracle, generator, dice)
    assert lake.rows() == oracle.rows
    known = range(generator.keys)
    waiting = append(
        [*generator.change(known[::4]), *generator.insert(12)], generator.change(known[1::5], late=300)
    )
    waiting += append(generator.change([*known[2::7], *known[::4][:9]]))
    after = oracle.copy()
    afterwards = (generator.change(known[::2], late=900), generator.change(range(1, generator.keys, 3)))
    after.merge(lake.changelog.metadata.next_sequence_number(), afterwards)
    files = dict(lake.store.files)
    return State(
        kind=kind,
        files=files,
        tables=dict(lake.catalog.tables),
        targets=targets_of(lake.mirror, lake.changelog, waiting, files),
        rows=oracle.rows,
        afterwards=tuple(tuple(events) for events in afterwards),
        rows_afterwards=after.rows,
    )


def _merge(lake: Lake) -> None:
    result = lake.merge()
    assert result.error is None, result.error


def _write_foreign(lake: Lake, oracle: Oracle, generator: EventGenerator, dice: random.Random) -> None:
    """Add a file of rows, and delete others: in one file for several data files, or in vectors."""
    table = lake.mirror
    generator.keys += 8
    inserted = {
        generator.kind.key_of(number): make_row(9000 + number, dice)
        for number in range(generator.keys - 8, generator.keys)
    }
    names = (*generator.kind.setting.key_names, *(name for name, _ in VALUES))
    values = dict(zip(names, zip(*((*key, *row) for key, row in inserted.items()), strict=True), strict=True))
    rows = pa.table(
        {name: list(column) for name, column in values.items()}, schema=schema_to_pyarrow(table.schema())
    )
    deleted = dice.sample(sorted(oracle.rows), 12)
    data = [_write(table, rows, Record())]
    deletes, replaced = _delete(table, generator.kind, {key[0] for key in deleted})
    snapshots.commit(table, "overwrite", data, deletes, replaced)
    oracle.write_foreign(inserted, deleted)


def _delete(
    table: Table, kind: Kind, keys: set[object]
) -> tuple[list[DataFile], frozenset[tuple[str, int | None]]]:
    deleted_rows: dict[str, list[int]] = {}
    live = live_files(table.io, table.current_snapshot())
    already_deleted = _deleted_locations(table)
    for path in live:
        ids = pq.read_table(pa.BufferReader(table.io.read(path)))[kind.setting.key_names[0]].to_pylist()  # type: ignore[attr-defined]
        positions = [at for at, key in enumerate(ids) if key in keys and (path, at) not in already_deleted]
        if positions:
            deleted_rows[path] = positions
    if kind.version >= 3:
        vectors = {path: pa.array(positions).to_numpy() for path, positions in deleted_rows.items()}
        written = write_vectors(table.io, table.metadata, vectors, live, [])
        return written, frozenset(
            delete.key for delete in replaced_deletes(table.metadata, deleted_rows, live)
        )
    pairs = sorted((path, at) for path, positions in deleted_rows.items() for at in positions)
    columns = [pa.array([path for path, _ in pairs]), pa.array([at for _, at in pairs], pa.int64())]
    deletes = pa.table(columns, schema=POSITION_DELETES)
    file = _write(table, deletes, Record(), DataFileContent.POSITION_DELETES, "-deletes.parquet")
    return [file], frozenset()


def _deleted_locations(table: Table) -> set[tuple[str, int]]:
    from spark_job.write.read_deletes import read_deleted_positions

    live = live_files(table.io, table.current_snapshot())
    found = read_deleted_positions(table.io, live)
    return {(path, int(at)) for path, positions in found.items() for at in positions}


def _write(
    table: Table,
    rows: pa.Table,
    partition: Record,
    content: DataFileContent = DataFileContent.DATA,
    ending: str = ".parquet",
) -> DataFile:
    path = f"{table.metadata.location}/data/{uuid.uuid4()}{ending}"
    with table.io.new_output(path).create() as stream:
        pq.write_table(
            rows,
            stream,
            compression=_CODECS[rows.num_rows % len(_CODECS)],
            row_group_size=64,
            max_rows_per_page=20,
            write_batch_size=20,
            write_page_checksum=True,
        )
    file = DataFile.from_args(
        _table_format_version=table.metadata.format_version,
        content=content,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=partition,
        record_count=rows.num_rows,
        file_size_in_bytes=len(table.io.new_input(path)),
    )
    file.spec_id = table.metadata.default_spec_id
    return file
