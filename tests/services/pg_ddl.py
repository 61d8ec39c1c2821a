"""Random column changes, of the kinds that a mirror supports."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from tests.services.pg_source import TABLE, Column, Columns
from tests.services.pg_types import quoted

WIDER = {
    "smallint": "integer",
    "integer": "bigint",
    "real": "double precision",
    "numeric(12,2)": "numeric(20,2)",
    "character varying(20)": "character varying(40)",
    "character varying(40)": "text",
}
_NAMES = ("note", "Remark", "größe", "two words", "select", 'quo"te', "cdc", "c1", "c2", "c3")
_NEW_TYPES = (
    "integer",
    "numeric(12,2)",
    "real",
    "text",
    "bytea",
    "timestamp with time zone",
    "text[]",
    "uuid",
    "json",
)
_MIN_COLUMNS, _MAX_COLUMNS = 5, 14
Run = Callable[[str, Sequence[str | None]], None]


def change_columns(columns: Columns, rng: random.Random, run: Run) -> str:
    """Run one random statement and return its name."""
    non_keys = [column for column in columns.columns if not column.key]
    widenable = [column for column in columns.columns if column.type in WIDER]
    column = rng.choice(columns.columns)
    match rng.choice(("add", "add", "drop", "rename", "rename", "widen", "widen", "comment", "describe")):
        case "add" if len(non_keys) < _MAX_COLUMNS:
            name = quoted(_unused_name(columns, rng))
            run(f"ALTER TABLE {TABLE} ADD {name} {rng.choice(_NEW_TYPES)}", ())
            return "column added"
        case "drop" if len(non_keys) > _MIN_COLUMNS:
            run(f"ALTER TABLE {TABLE} DROP {quoted(rng.choice(non_keys).name)}", ())
            return "column dropped"
        case "widen" if widenable:
            return _widen(rng.choice(widenable), run)
        case "comment":
            qualified = f"{TABLE}.{quoted(column.name)}"
            run(f"COMMENT ON COLUMN {qualified} IS %s", (rng.choice((None, "what it is", "größer")),))
            return "column commented"
        case "describe":
            run(f"COMMENT ON TABLE {TABLE} IS %s", (rng.choice(("all of them", "die ganze Welt")),))
            return "table commented"
        case _:
            new = quoted(_unused_name(columns, rng))
            run(f"ALTER TABLE {TABLE} RENAME {quoted(column.name)} TO {new}", ())
            return "column renamed"


def _widen(column: Column, run: Run) -> str:
    run(f"ALTER TABLE {TABLE} ALTER {quoted(column.name)} TYPE {WIDER[column.type]}", ())
    return "key widened" if column.key else "column widened"


def _unused_name(columns: Columns, rng: random.Random) -> str:
    return rng.choice([name for name in _NAMES if name not in columns.names])
