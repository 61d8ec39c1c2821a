"""The mirrors for the reader tests: kinds of keys and partitions, and every column type."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pyiceberg.table import Table

from icemirror.cli.demo.oracle.verifier import MirrorVerifier
from icemirror.step_results import Merged
from spark_job.engine.engine import InProcessEngine
from tests.lab.mirrored_world import MirroredWorld
from tests.oracle.schedules import Schedule
from tests.oracle.value_pools import MISREAD_BY_PYICEBERG, VALUE_COLUMNS

MERGES = 4
# Spark SQL has no type for a time of day: Iceberg refuses to load a table with such a column.
UNSUPPORTED_BY_SPARK = frozenset({"clock"})

_ALL = tuple(VALUE_COLUMNS)
_FOR_PYICEBERG = tuple(name for name in _ALL if name not in MISREAD_BY_PYICEBERG)
_FOR_SPARK = tuple(name for name in _ALL if name not in UNSUPPORTED_BY_SPARK)
_FOR_BOTH = tuple(name for name in _FOR_PYICEBERG if name not in UNSUPPORTED_BY_SPARK)


@dataclass(frozen=True)
class Case:
    """A schedule and the settings of its mirror. `scattered`: most data files have one row and are dropped with it."""

    name: str
    key: str
    columns: tuple[str, ...]
    partition_by: tuple[str, ...] = ()
    seed: int = 1
    shards: int = 1
    batch_size: int = 10_000
    properties: tuple[tuple[str, str], ...] = ()
    distinct_keys: int = 60
    largest_commit: int = 80
    format_version: int = 2
    scattered: bool = False

    def __str__(self) -> str:
        return self.name

    @property
    def for_pyiceberg(self) -> bool:
        """Return whether PyIceberg reads every column without loss."""
        return not MISREAD_BY_PYICEBERG.intersection(self.columns)

    @property
    def for_spark(self) -> bool:
        """Return whether Spark has a type for every column."""
        return not UNSUPPORTED_BY_SPARK.intersection(self.columns)

    @property
    def options(self) -> str:
        """Return the table's settings, without compaction: the readers read the files as merges write them."""
        lines = [
            "compact: false",
            f"format_version: {self.format_version}",
            f"partition_by: [{', '.join(repr(field) for field in self.partition_by)}]",
        ]
        if self.properties:
            lines += ["table_properties:", *(f"  {name}: '{value}'" for name, value in self.properties)]
        return "\n".join(lines)


CASES = (
    Case("int", "int", _ALL, seed=11),
    Case("uuid_in_buckets", "uuid", _FOR_BOTH, ("bucket[4](id)",), seed=12),
    Case(
        "string_truncated",
        "string",
        _FOR_BOTH,
        ("truncate[2](id)", "flag"),
        seed=13,
        batch_size=40,
        scattered=True,
    ),
    Case("composite", "composite", _FOR_SPARK, seed=14, shards=3),
    Case(
        "composite_by_day",
        "composite_typed",
        _FOR_BOTH,
        ("day(instant)", "bucket[4](since)"),
        seed=15,
        scattered=True,
    ),
    Case("int_by_number", "int32", _FOR_SPARK, ("single", "truncate[50](small)"), seed=16),
    Case(
        "moment_by_hour",
        "timestamptz",
        _FOR_PYICEBERG,
        ("hour(id)", "month(day)", "year(moment)"),
        seed=17,
        scattered=True,
    ),
    # Not by a fixed column: Iceberg Java misreads such partitions, even in tables that it wrote (apache/iceberg#17501).
    Case(
        "decimal_by_amount", "decimal", _FOR_PYICEBERG, ("bucket[3](amount)", "truncate[7](price)"), seed=18
    ),
)

V3_CASES = (
    Case("int_v3", "int", _ALL, seed=31, format_version=3),
    Case(
        "uuid_in_buckets_v3", "uuid", _FOR_BOTH, ("bucket[4](id)",), seed=32, batch_size=40, format_version=3
    ),
    Case("composite_v3", "composite", _FOR_SPARK, ("truncate[50](small)",), 33, 3, format_version=3),
    # Manifests are merged at almost every commit.
    Case(
        "string_v3",
        "string",
        _FOR_BOTH,
        seed=34,
        batch_size=20,
        properties=(("commit.manifest.min-count-to-merge", "2"),),
        format_version=3,
    ),
)


def make_world(folder: Path, case: Case, merges: int = MERGES) -> MirroredWorld:
    """Return a mirror after some merges."""
    world = _start(folder, case)
    for _ in range(merges):
        commit_and_merge(world)
    world.oracle.expected()  # both oracles agree; from now on one of them is enough
    world.oracle.judge = MirrorVerifier(world.oracle.journal, use_duckdb=False)
    return world


def make_with_one_merge(folder: Path, case: Case, min_rows: int = 30) -> MirroredWorld:
    """Return a mirror after its first merge, without deletes, with at least this many rows."""
    world = _start(folder, case)
    world.oracle.commit_next()
    while len(world.oracle.expected()) < min_rows:
        world.oracle.commit_next()
    assert isinstance(world.pipeline.advance(world.table), Merged)
    return world


def _start(folder: Path, case: Case) -> MirroredWorld:
    return MirroredWorld.make(
        folder,
        Schedule(case.seed, case.key, case.columns, case.distinct_keys, case.largest_commit),
        InProcessEngine(case.shards),
        options=case.options,
        extra_config=f"batch_size: {case.batch_size}\n",
    )


def commit_and_merge(world: MirroredWorld) -> int:
    """Merge the schedule's next two commits. Return the number of slices."""
    world.oracle.commit_many(2)
    slices = 0
    while isinstance(world.pipeline.advance(world.table), Merged):
        slices += 1
    assert slices
    return slices


def snapshot_ids(mirror: Table) -> list[int]:
    """Return all snapshot ids, oldest first."""
    return [snapshot.snapshot_id for snapshot in mirror.snapshots()]
