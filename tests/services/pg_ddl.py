"""Changes of columns by chance, of the kinds that a mirror follows."""

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
_NEW = (
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
_FEWEST, _MOST = 5, 14
Run = Callable[[str, Sequence[str | None]], None]


def change_columns(columns: Columns, chance: random.Random, run: Run) -> str:
    """One statement; its name."""
    others = [one for one in columns.columns if not one.key]
    wider = [one for one in columns.columns if one.type in WIDER]
    column = chance.choice(columns.columns)
    match chance.choice(("add", "add", "drop", "rename", "rename", "widen", "widen", "comment", "describe")):
        case "add" if len(others) < _MOST:
            name = quoted(_free(columns, chance))
            run(f"ALTER TABLE {TABLE} ADD {name} {chance.choice(_NEW)}", ())
            return "column added"
        case "drop" if len(others) > _FEWEST:
            run(f"ALTER TABLE {TABLE} DROP {quoted(chance.choice(others).name)}", ())
            return "column dropped"
        case "widen" if wider:
            return _widen(chance.choice(wider), run)
        case "comment":
            about = f"{TABLE}.{quoted(column.name)}"
            run(f"COMMENT ON COLUMN {about} IS %s", (chance.choice((None, "what it is", "größer")),))
            return "column commented"
        case "describe":
            run(f"COMMENT ON TABLE {TABLE} IS %s", (chance.choice(("all of them", "die ganze Welt")),))
            return "table commented"
        case _:
            new = quoted(_free(columns, chance))
            run(f"ALTER TABLE {TABLE} RENAME {quoted(column.name)} TO {new}", ())
            return "column renamed"


def _widen(column: Column, run: Run) -> str:
    run(f"ALTER TABLE {TABLE} ALTER {quoted(column.name)} TYPE {WIDER[column.type]}", ())
    return "key widened" if column.key else "column widened"


def _free(columns: Columns, chance: random.Random) -> str:
    return chance.choice([name for name in _NAMES if name not in columns.names])
