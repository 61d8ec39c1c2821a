"""A PostgreSQL, its changelog and its mirror by chance: `python -m tests.services.pg_run 0 200` runs 200 seeds."""

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
from icemirror.cli.demo.oracle.judge import compare_table
from icemirror.cli.demo.oracle.mirror_readers import MirrorReader, check_columns, read_by_pyiceberg
from icemirror.cli.demo.oracle.source_table import SourceTable
from icemirror.config_file.load import load_settings
from spark_job.engine.engine import InProcessEngine, LazyEngine
from spark_job.iceberg.catalogs import Catalogs
from spark_job.pipeline import Pipeline
from tests.lab.column_changes import assert_sound, rebuild
from tests.lab.lab import Lab
from tests.mirrors import write_config
from tests.services import pg_types
from tests.services.pg_changelog import Changelog, numbered
from tests.services.pg_profiles import Debezium, Order, Profile, SupabaseEtl
from tests.services.pg_source import TABLE, Source, source
from tests.services.pg_workload import Workload, move, move_only
from tests.services.postgres import Postgres, postgres


def _read_by_duckdb(mirror: Table, subject: SourceTable, _snapshot_id: int | None = None) -> pa.Table:
    """All rows, by the one connection that there is: loading what reads Iceberg takes longer than reading."""
    check_columns(mirror, subject)
    names = ", ".join(quote(name) for name in subject.columns.names)
    location = {"location": mirror.metadata_location}
    return _duckdb().execute(f"SELECT {names} FROM iceberg_scan($location)", location).to_arrow_table()


@cache
def _duckdb() -> Any:
    return connect_duckdb(iceberg=True)


READERS: Mapping[str, MirrorReader] = {"DuckDB": _read_by_duckdb, "PyIceberg": read_by_pyiceberg}


@dataclass
class Followed:
    """A table of PostgreSQL, its changelog and its mirror."""

    source: Source
    changelog: Changelog
    lab: Lab

    @classmethod
    def make(
        cls,
        folder: Path,
        source: Source,
        profile: Profile,
        chance: random.Random,
        *,
        options: str = "",
        tail: str = "",
    ) -> Followed:
        """The initial copy is in the changelog, and changes since then are not."""
        settings = load_settings(write_config(folder, f"{profile.options}\n{options}", tail), os.environ)
        catalogs = Catalogs(settings)
        changelog = Changelog(catalogs.get(None), profile, source, chance)
        source.publish()
        changelog.copy()
        pipeline = Pipeline(settings, catalogs, LazyEngine(InProcessEngine), "test", key_check_rows=None)
        return cls(source, changelog, Lab(folder, settings, pipeline, changelog.table))

    def drain(self) -> None:
        """Everything that PostgreSQL has told gets into the changelog."""
        self.changelog.write(self.source.changes())

    def check(self) -> int:
        """The mirror has the columns and the rows of the source; how many."""
        self._check_columns()
        subject, rows = self._told()
        keys, images = render_rows(rows, subject.key_columns), render_rows(rows, subject.columns)
        expected = dict(zip(keys, images, strict=True))
        for name, read in READERS.items():
            verdict = compare_table(expected, read(self.lab.mirror, subject, None), subject)
            assert verdict.equal, f"{name}: {verdict}"
        return int(rows.num_rows)

    def _check_columns(self) -> None:
        columns, mirror = self.source.columns(), self.lab.mirror
        schema = mirror.schema()
        found = [(one.name, one.doc or "") for one in schema.fields]
        told = [(one.name, one.comment or "") for one in columns.columns]
        # Columns that the source dropped come last, where the mirror keeps them.
        kept = found[len(told) :] if self.lab.table.on_dropped_column == "keep" else []
        assert found == told + kept
        assert schema.identifier_field_names() == {one.name for one in columns.keys}
        assert mirror.properties.get("comment", "") == (columns.comment or "")

    def _told(self) -> tuple[SourceTable, pa.Table]:
        """The rows as psycopg2 reads them, which knows nothing of logical decoding."""
        columns, type_of = self.source.columns().columns, self.changelog.profile.type_of
        fields = [NestedField(at, one.name, type_of(one.type)) for at, one in enumerate(columns, 1)]
        arrow = schema_to_pyarrow(Schema(*numbered(fields)), include_field_ids=False)
        selected = ", ".join(pg_types.selected(one.name, one.type, type_of(one.type)) for one in columns)
        psycopg2.extras.register_uuid(conn_or_curs=self.source.connection)
        told = self.source.run(f"SELECT {selected} FROM {TABLE}")
        rows = [
            {one.name: pg_types.taken(value) for one, value in zip(columns, row, strict=True)} for row in told
        ]
        subject = SourceTable(TABLE, arrow, tuple(one.name for one in columns if one.key))
        return subject, pa.Table.from_pylist(rows, schema=arrow)


def _profile(seed: int, chance: random.Random) -> Profile:
    """Each in its turn."""
    if seed % 2 == 0:
        return SupabaseEtl(nulls=chance.random() < 0.5)
    orders: tuple[Order, ...] = ("lsn", "lsn and place", "sequence")
    order = chance.choice(orders)
    return Debezium(order, before=seed % 4 == 1, tombstones=chance.random() < 0.5)


def _tells_whole_rows(seed: int) -> bool:
    """Whether the replica identity is the row, or the key alone; every profile has both."""
    return seed % 8 in (2, 4, 5, 7)


def run_seed(server: Postgres, folder: Path, seed: int, steps: int = 8) -> Counter[str]:
    """Merges now and then, and holds the mirror against the source each time; what was done."""
    chance = random.Random(seed)
    profile, whole_rows = _profile(seed, chance), _tells_whole_rows(seed)
    etl = isinstance(profile, SupabaseEtl)
    # Supabase ETL has nothing for large values that are not told, nor for keys that change.
    moves = () if etl else (move_only,) if whole_rows else (move,)
    dropped, version = chance.choice(("keep", "drop")), chance.choice((2, 2, 2, 3))
    options = f"on_dropped_column: {dropped}\nformat_version: {version}"
    tail = chance.choice(("", "batch_size: 15\n"))
    with source(server) as opened:
        workload = Workload(opened, chance, moves, large_values=whole_rows or not etl)
        workload.create()
        if whole_rows:
            opened.run(f"ALTER TABLE {TABLE} REPLICA IDENTITY FULL")
        followed = Followed.make(folder, opened, profile, chance, options=options, tail=tail)
        done = workload.done
        for step in range(steps):
            truncates = etl and chance.random() < 0.1
            if truncates:
                # A changelog that is made anew knows columns by name only, so no name of the key may change meanwhile.
                followed.lab.merge()
                opened.run(f"TRUNCATE {TABLE}")
                done["truncated"] += 1
            workload.step(chance.randint(1, 8), ddl=not truncates)
            if not etl and chance.random() < 0.3:
                opened.run(f"TRUNCATE {TABLE}")
                done["truncated"] += 1
                workload.step(chance.randint(0, 4), ddl=True)
            followed.drain()
            if truncates or step == steps - 1 or chance.random() < 0.7:
                followed.lab.merge()
                done["rows compared"] += followed.check()
                done["merges compared"] += 1
        assert_sound(followed.lab)
        rebuild(followed.lab)
        followed.check()
    return done + followed.changelog.done


def main(first: int, count: int) -> int:
    """Runs seeds; how many failed."""
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
                    print(f"seed {seed} holds", flush=True)
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
