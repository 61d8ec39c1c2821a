"""Good and bad events, and the rejects table."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.table import Table

from spark_job.engine.engine import Engine
from tests.lab.lab import ID_AND_NAME, Lab, sequence_text

_WORD = re.compile(r"([IUDX_])(-?\d+|\?)@(\d+|\?|!)(?:=(\S*))?")
_OPERATION = {"I": "INSERT", "U": "UPDATE", "D": "DELETE", "X": "UPSERT", "_": None}
_NULLABLE = pa.schema([field.with_nullable(True) for field in schema_to_pyarrow(ID_AND_NAME)])
MIXED = "I1@1 I?@2=a U1@3=b X2@4=c I3@5 U1@?=d"
REJECTED = [("null-key", "a"), ("null-sequence", "d"), ("unknown-operation", "c")]
REASONS = {
    "I?@8": "null-key",
    "_8@8": "null-operation",
    "X8@8": "unknown-operation",
    "U8@?": "null-sequence",
    "U8@!": "unreadable-sequence",
}


def bad_events(words: str) -> pa.Table:
    """Parse a file of events, some of them bad.

    `U5@7=x` is a good event, as in `lab.events`. `I?@7` has no key, `X5@7` has an unknown operation and
    `_5@7` has none. `U5@?` has no sequence and `U5@!` has an unreadable one.
    """
    matches = [match for word in words.split() if (match := _WORD.fullmatch(word))]
    assert len(matches) == len(words.split()), words
    rows = [
        {
            "id": None if match[2] == "?" else int(match[2]),
            "name": match[0] if match[4] is None else match[4],
            "cdc_operation": _OPERATION[match[1]],
            "sequence_number": _sequence(match[3]),
        }
        for match in matches
    ]
    return pa.Table.from_pylist(rows, schema=_NULLABLE)


def _sequence(word: str) -> str | None:
    if word.isdecimal():
        return sequence_text(int(word))
    return None if word == "?" else "nonsense"


def make(folder: Path, options: str = "", extra_config: str = "", engine: Engine | None = None) -> Lab:
    """Create a lab that rejects bad rows."""
    return Lab.make(
        folder, options=f"on_bad_row: quarantine\n{options}", extra_config=extra_config, engine=engine
    )


def rejects(lab: Lab) -> Table:
    """Return the rejects table."""
    return lab.catalog.load_table("lab.world_rejects")


def rejected(lab: Lab) -> list[tuple[str, str]]:
    """Return reason and name of each row of the rejects table."""
    rows: list[dict[str, Any]] = rejects(lab).scan().to_arrow().to_pylist()
    return sorted((row["icemirror_reason"], row["name"]) for row in rows)
