"""Random runs of PostgreSQL, changelog and mirror: `python -m tests.services.pg_run 0 200` runs 200 seeds."""

from __future__ import annotations

import os
import random
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import psycopg2.extras
import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import NestedField

from icemirror.cli.demo.oracle.canonical import render_rows
from icemirror.cli.demo.oracle.duckdb_oracle import connect_duckdb, quote
from icemirror.cli.demo.oracle.mirror_readers import MirrorReader, check_columns, read_by_pyiceberg
from icemirror.cli.demo.oracle.source_table import SourceTable
from icemirror.cli.demo.oracle.verifier import compare_table
from icemirror.config_file.load import load_settings
from spark_job.engine.engine import InProcessEngine, LazyEngine
from spark_job.iceberg.catalogs import Catalogs
from spark_job.pipeline import Pipeline
from tests.lab.column_changes import assert_sound, rebuild
from tests.lab.lab import Lab
from tests.lab.mirrored_world import write_config
from tests.services import pg_types
from tests.services.pg_changelog import Changelog, numbered
from tests.services.pg_profiles import Debezium, Order, Profile, SupabaseEtl
from tests.services.pg_source import TABLE, Source, source
from tests.services.pg_workload import Workload, move, move_only
from tests.services.postgres import Postgres, postgres


def _read_by_duckdb(mirror: Table, subject: SourceTable, _snapshot_id: int | None = None) -> pa.Table:
    """Read all rows with a shared connection: loading the Iceberg extension takes longer than reading."""
    check_columns(mirror, subject)
    names = ", ".join(quote(name) for name in subject.columns.names)
    location = {"location": mirror.metadata_location}
    return _duckdb().execute(f"SELECT {names} FROM iceberg_scan($location)", location).to_arrow_table()


@cache
def _duckdb() -> Any:
    return connect_duckdb(iceberg=True)


READERS: Mapping[str, MirrorReader] = {"DuckDB": _read_by_duckdb, "PyIceberg": read_by_pyiceberg}


@dataclass
class MirroredSource:
    """A PostgreSQL table with its changelog and its mirror."""

    source: Source
    changelog: Changelog
    lab: Lab

    @classmethod
    def make(
        cls,
        folder: Path,
        source: Source,
        profile: Profile,
        rng: random.Random,
        *,
        options: str = "",
        extra_config: str = "",
    ) -> MirroredSource:
        """Create a changelog with the initial copy of the source, without later changes."""
        settings = load_settings(
            write_config(folder, f"{profile.options}\n{options}", extra_config), os.environ
        )
        catalogs = Catalogs(settings)
        changelog = Changelog(catalogs.get(None), profile, source, rng)
        source.publish()
        changelog.copy()
        pipeline = Pipeline(settings, catalogs, LazyEngine(InProcessEngine), "test", key_check_rows=None)
        return cls(source, changelog, Lab(folder, settings, pipeline, changelog.table))

    def drain(self) -> None:
        """Write all pending changes of PostgreSQL to the changelog."""
        self.changelog.write(self.source.changes())

    def check(self) -> int:
        """The mirror has the columns and rows of the source. Return the number of rows."""
        self._check_columns()
        subject, rows = self._source_rows()
        keys, images = render_rows(rows, subject.key_columns), render_rows(rows, subject.columns)
        expected = dict(zip(keys, images, strict=True))
        for name, read in READERS.items():
            verdict = compare_table(expected, read(self.lab.mirror, subject, None), subject)
            assert verdict.equal, f"{name}: {verdict}"
        return int(rows.num_rows)

    def _check_columns(self) -> None:
        columns, mirror = self.source.columns(), self.lab.mirror
        schema = mirror.schema()
        found = [(field.name, field.doc or "") for field in schema.fields]
        expected = [(column.name, column.comment or "") for column in columns.columns]
        # Columns that the source dropped come last, where the mirror keeps them.
        kept = found[len(expected) :] if self.lab.table.on_dropped_column == "keep" else []
        assert found == expected + kept
        assert schema.identifier_field_names() == {column.name for column in columns.keys}
        assert mirror.properties.get("comment", "") == (columns.comment or "")

    def _source_rows(self) -> tuple[SourceTable, pa.Table]:
        """Return the rows as psycopg2 reads them, which does not depend on logical decoding."""
        columns, type_of = self.source.columns().columns, self.changelog.profile.type_of
        fields = [
            NestedField(field_id, column.name, type_of(column.type))
            for field_id, column in enumerate(columns, 1)
        ]
        arrow = schema_to_pyarrow(Schema(*numbered(fields)), include_field_ids=False)
        selected = ", ".join(
            pg_types.select_expression(column.name, column.type, type_of(column.type)) for column in columns
        )
        psycopg2.extras.register_uuid(conn_or_curs=self.source.connection)
        result = self.source.run(f"SELECT {selected} FROM {TABLE}")
        rows = [
            {column.name: pg_types.to_arrow_value(value) for column, value in zip(columns, row, strict=True)}
            for row in result
        ]
        subject = SourceTable(TABLE, arrow, tuple(column.name for column in columns if column.key))
        return subject, pa.Table.from_pylist(rows, schema=arrow)


def _profile(seed: int, rng: random.Random) -> Profile:
    """Return a random profile; the seeds rotate through all of them."""
    if seed % 2 == 0:
        return SupabaseEtl(nulls=rng.random() < 0.5)
    orders: tuple[Order, ...] = ("lsn", "lsn and ordinal", "sequence")
    order = rng.choice(orders)
    return Debezium(order, before=seed % 4 == 1, null_records=rng.random() < 0.5)


def _full_replica_identity(seed: int) -> bool:
    """Return whether the replica identity is FULL or the key; every profile runs with both."""
    return seed % 8 in (2, 4, 5, 7)


def run_seed(server: Postgres, folder: Path, seed: int, steps: int = 8) -> Counter[str]:
    """Run a workload with merges, compare mirror and source after each, and count the operations."""
    rng = random.Random(seed)
    profile, full_identity = _profile(seed, rng), _full_replica_identity(seed)
    is_etl = isinstance(profile, SupabaseEtl)
    # Supabase ETL does not support omitted large values or key changes.
    moves = () if is_etl else (move_only,) if full_identity else (move,)
    dropped, version = rng.choice(("keep", "drop")), rng.choice((2, 2, 2, 3))
    options = f"on_dropped_column: {dropped}\nformat_version: {version}"
    extra_config = rng.choice(("", "batch_size: 15\n"))
    with source(server) as database:
        workload = Workload(database, rng, moves, large_values=full_identity or not is_etl)
        workload.create()
        if full_identity:
            database.run(f"ALTER TABLE {TABLE} REPLICA IDENTITY FULL")
        mirrored = MirroredSource.make(
            folder, database, profile, rng, options=options, extra_config=extra_config
        )
        done = workload.done
        for step in range(steps):
            truncates = is_etl and rng.random() < 0.1
            if truncates:
                # A recreated changelog matches columns by name only, so key columns must not be renamed in between.
                mirrored.lab.merge()
                database.run(f"TRUNCATE {TABLE}")
                done["truncated"] += 1
            workload.step(rng.randint(1, 8), ddl=not truncates)
            if not is_etl and rng.random() < 0.3:
                database.run(f"TRUNCATE {TABLE}")
                done["truncated"] += 1
                workload.step(rng.randint(0, 4), ddl=True)
            mirrored.drain()
            if truncates or step == steps - 1 or rng.random() < 0.7:
                mirrored.lab.merge()
                done["rows compared"] += mirrored.check()
                done["merges compared"] += 1
        assert_sound(mirrored.lab)
        rebuild(mirrored.lab)
        mirrored.check()
    return done + mirrored.changelog.done


def main(first: int, count: int) -> int:
    """Run seeds and return the number of failures."""
    done: Counter[str] = Counter()
    failed = []
    with tempfile.TemporaryDirectory(prefix="icemirror-pg-") as folder:
        server_folder = Path(folder, "server")
        server_folder.mkdir()
        with postgres(server_folder) as server:
            for seed in range(first, first + count):
                (scratch := Path(folder, str(seed))).mkdir()
                try:
                    done += run_seed(server, scratch, seed)
                    print(f"seed {seed} passed", flush=True)
                except Exception:
                    traceback.print_exc()
                    failed.append(seed)
                    print(f"seed {seed} failed", flush=True)
    for name, total in sorted(done.items()):
        print(f"{total:8,d} {name}")
    print(f"{count} seeds, failed: {failed or 'none'}")
    return len(failed)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])) > 0)
