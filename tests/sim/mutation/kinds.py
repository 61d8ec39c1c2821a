"""The kinds of mirror whose files are mutated."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from pyiceberg.schema import Schema
from pyiceberg.types import DecimalType, IcebergType, LongType, StringType, TimestamptzType

from tests.lab.lab import changelog_schema
from tests.sim.engine.setting import Key, Setting

VALUES: tuple[tuple[str, IcebergType], ...] = (
    ("v", LongType()),
    ("c", StringType()),
    ("t", TimestamptzType()),
    ("d", DecimalType(12, 3)),
)


@dataclass(frozen=True)
class Kind:
    """Kind of key, format version, and whether there are foreign writes since the last merge."""

    key: str
    version: int
    foreign_writes: bool

    def __str__(self) -> str:
        return f"{self.key} keys, version {self.version}{', other writers' if self.foreign_writes else ''}"

    @property
    def setting(self) -> Setting:
        """Small sizes, so that the index has many blocks, pieces and runs."""
        return _Setting(
            kind=self.key,
            version=self.version,
            partition="table_properties: {write.parquet.row-group-limit: 64, write.parquet.page-row-limit: 20}",
            batch_size=100_000,
            shards=2,
            fan_in=4,
            smallest_tier=8,
            least_work=120,
            step_entries=60,
            block_rows=16,
            most_files=1,
            calm=True,
            pool=(),
        )

    def key_of(self, number: int) -> Key:
        """Return a key; some are consecutive, so that the index has runs, and some are not."""
        if self.key == "string":
            return (f"key {number}",)
        return (number if number < 130 else number * 1000 + number % 7,)


class _Setting(Setting):
    @property
    def schema(self) -> Schema:
        """The changelog's schema, with types that a file's footer defines."""
        return changelog_schema(*self.key_columns, *VALUES, keys=self.key_names)


KINDS = tuple(Kind(*values) for values in product(("long", "string"), (2, 3), (False, True)))
