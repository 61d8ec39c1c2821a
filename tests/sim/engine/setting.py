"""The setting that a seed chooses: the table, its limits, and sizes that make rare cases frequent."""

from __future__ import annotations

import os
import random
import tempfile
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, IcebergType, LongType, NestedField, StringType, UUIDType

from icemirror.config_file.load import load_settings
from icemirror.settings import Settings
from tests.lab.lab import changelog_schema
from tests.lab.mirrored_world import write_config

Key = tuple[Any, ...]

_KINDS: dict[str, tuple[tuple[tuple[str, IcebergType], ...], tuple[Key, ...]]] = {
    "long": (
        (("id", LongType()),),
        (*((number,) for number in range(100, 118)), (-(2**63),), (2**63 - 1,), (0,), (-1,)),
    ),
    "uuid": (
        (("id", UUIDType()),),
        tuple(
            (number.to_bytes(16, "big"),)
            for number in (*range(2**64 - 8, 2**64 + 8), 0, 2**128 - 1, 2**127, 2**127 - 1)
        ),
    ),
    "string": ((("id", StringType()),), tuple((text,) for text in ("", " ", "é", *"abcdefghijklmnopq"))),
    "composite": (
        (("a", LongType()), ("b", StringType())),
        tuple((number, text) for number in (1, 12, 123) for text in ("", "2", "23", "3", "x", "y", "z")),
    ),
}
FIRST_WITH_COMPACTION = 7000  # earlier seeds keep their traces without it
FIRST_WITH_PARTIAL_EVENTS = 20_000
FIRST_WITH_SOFT_DELETES = 60_002
SAME = "~"  # marks an unchanged value
_PARTIAL = """profile: generic
operation_column: op
sequence_column: [file, lsn]
sequence_format: {file: binlog-file, lsn: postgres-lsn}
unchanged_value: "~"
on_missing_value: set-null"""
_TRUNCATING = "operation_values: {insert: [INSERT], update: [UPDATE], delete: [DELETE], truncate: [TRUNCATE]}"
PARTITIONS = ("", 'partition_by: ["bucket[2](c)"]', 'partition_by: ["c"]')


@dataclass(frozen=True)
class Setting:
    """The table of one seed."""

    kind: str
    version: int
    partition: str
    batch_size: int
    shards: int
    fan_in: int
    smallest_tier: int
    least_work: int
    step_entries: int
    block_rows: int
    most_files: int
    calm: bool  # no crash, no lost response, no damage: no file may stay unreferenced
    pool: tuple[Key, ...]
    data_fan_in: int = 0  # how many small data files are compacted at least; 0: none
    data_most: int = 0  # and at most
    partial: bool = False  # events may omit unchanged values and change keys; their sequence is text
    resync: bool = False  # the mirror is also rebuilt if the cursor has expired
    keyless: bool = False
    rejects: bool = False  # bad rows are among the events, and are rejected
    soft: bool = False  # soft deletes
    orderly: bool = False  # no event is older than a delete of its key
    truncates: bool = False  # truncations of the source are among the events

    @classmethod
    def of_seed(cls, seed: int, dice: random.Random) -> Setting:
        """Return the setting of a seed: drawn from its dice, with features chosen by its number."""
        chosen = cls.choose(dice).with_compaction(seed).with_partial_events(seed)
        return replace(chosen, soft=seed >= FIRST_WITH_SOFT_DELETES and seed % 5 == 2)

    @classmethod
    def choose(cls, dice: random.Random) -> Setting:
        """Draw the setting of a seed."""
        kind = dice.choice(sorted(_KINDS))
        keys = list(_KINDS[kind][1])
        dice.shuffle(keys)
        return cls(
            kind=kind,
            version=dice.choice([2, 3]),
            partition=dice.choice(PARTITIONS),
            batch_size=dice.choice([3, 8, 1000]),
            shards=dice.choice([1, 1, 2, 3]),
            fan_in=dice.choice([2, 3, 4]),
            smallest_tier=dice.choice([2, 6]),
            least_work=dice.choice([3, 8, 1000]),
            step_entries=dice.choice([6, 1000, 1000]),
            block_rows=dice.choice([2, 4, 256]),
            most_files=dice.choice([1, 3]),
            calm=dice.random() < 0.25,
            pool=tuple(keys[: dice.choice([6, 12, 20])]),
        )

    def with_compaction(self, seed: int) -> Setting:
        """Choose by the seed alone, so that the rest of its trace stays the same."""
        if seed < FIRST_WITH_COMPACTION:
            return self
        least = (2, 3, 8, 0)[seed % 4]
        return replace(self, data_fan_in=least, data_most=least if seed // 4 % 2 else 256)

    def with_partial_events(self, seed: int) -> Setting:
        """Choose by the seed alone, and never with replays: the result of a late event depends on their slices."""
        return replace(self, partial=seed >= FIRST_WITH_PARTIAL_EVENTS and seed % 6 == 3)

    def with_rebuilds(self) -> Setting:
        """Keep events orderly with soft deletes: the result of a delete depends on the slices of a rebuild."""
        return replace(self, orderly=self.soft)

    def with_rejects(self) -> Setting:
        """Add bad rows to the events."""
        return replace(self, rejects=True)

    @property
    def key_columns(self) -> tuple[tuple[str, IcebergType], ...]:
        return _KINDS[self.kind][0]

    @property
    def key_names(self) -> list[str]:
        return [name for name, _ in self.key_columns]

    @property
    def schema(self) -> Schema:
        """The changelog's schema: key, a revision number, a category, a value with NULL and NaN."""
        if self.partial:
            return _partial_schema(self.kind)
        return _schema(self.kind, self.keyless, self.rejects or self.truncates)

    @property
    def settings(self) -> Settings:
        compact = str(bool(self.data_fan_in)).lower()
        options = f"format_version: {self.version}\ncompact: {compact}\n{self.partition}"
        if self.partial:
            old = ", ".join(f"{name}: old_{name}" for name in self.key_names)
            options += f"\n{_PARTIAL}\nold_key_columns: {{{old}}}"
        if self.resync:
            options = f"{options}\non_expired_cursor: rebuild"
        if self.keyless:
            options = f"{options}\nappend_only: true"
        if self.rejects or self.truncates:
            options += f"\nprimary_keys: [{', '.join(self.key_names)}]"
        if self.rejects:
            options += "\non_bad_row: quarantine"
        if self.truncates:
            options += f"\n{_TRUNCATING}"
        if self.soft:
            options += "\ndelete_mode: soft"
        return _settings(options, f"batch_size: {self.batch_size}\n")

    def key_arrays(self, keys: list[Key]) -> list[pa.Array]:
        """Return key columns as the merge reads them from Parquet."""
        types = {"long": pa.int64(), "uuid": pa.binary(16), "string": pa.large_string()}
        kinds = [pa.int64(), pa.large_string()] if self.kind == "composite" else [types[self.kind]]
        return [pa.array([key[at] for key in keys], kind) for at, kind in enumerate(kinds)]


@cache
def _schema(kind: str, keyless: bool = False, nullable: bool = False) -> Schema:
    key = _KINDS[kind][0]
    values: tuple[tuple[str, IcebergType], ...] = (
        ("v", LongType()),
        ("c", StringType()),
        ("x", DoubleType()),
    )
    schema = changelog_schema(*key, *values, keys=[] if keyless else [name for name, _ in key])
    if not nullable:
        return schema
    return Schema(*(field.model_copy(update={"required": False}) for field in schema.fields))


@cache
def _partial_schema(kind: str) -> Schema:
    """Return the same columns, then the old key, the operation and the sequence."""
    *fields, _, _ = _schema(kind).fields
    more = [(f"old_{name}", key_type) for name, key_type in _KINDS[kind][0]]
    more += [(name, StringType()) for name in ("op", "file", "lsn")]
    added = [
        NestedField(len(fields) + at, name, column_type) for at, (name, column_type) in enumerate(more, 1)
    ]
    return Schema(*fields, *added, identifier_field_ids=_schema(kind).identifier_field_ids)


@lru_cache(maxsize=256)
def _settings(options: str, extra_config: str) -> Settings:
    with tempfile.TemporaryDirectory(prefix="icemirror-sim-") as folder:
        return load_settings(write_config(Path(folder), options, extra_config), os.environ)


_arrow: dict[tuple[str, bool, bool, bool, bool, int], pa.Schema] = {}


def arrow_schema(setting: Setting, schema: Schema, *, mirror: bool = False) -> pa.Schema:
    """Return an Arrow schema with field ids, converted once for each kind of key."""
    nullable = setting.rejects or setting.truncates
    key = setting.kind, setting.partial, setting.keyless, nullable, mirror, len(schema.fields)
    if key not in _arrow:
        _arrow[key] = schema_to_pyarrow(schema)
    return _arrow[key]
