"""Generates docs/types.md from the behaviour of the readers.

    python -m tests.interop.types_page        rewrites the page

What a reader does not read is its own limit, or the page cannot be written: the same columns and rows, in a table that
Iceberg Java wrote, must fail with the same reader.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from icemirror.cli.demo.oracle.duckdb_oracle import connect_duckdb
from spark_job.engine.java import find_java
from tests import maven
from tests.interop.iceberg_java import ICEBERG_JAR, SQLITE_JAR, IcebergJava
from tests.interop.type_lab import Typed, key_tables, mirror_columns, mirror_keys
from tests.interop.type_limits import LIMITS
from tests.interop.type_readers import READERS, Read, readers, try_reading, written_by_java
from tests.interop.type_refusals import REFUSALS, refuse
from tests.interop.type_samples import COMPOSITES, SAMPLES, Sample

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "types.md"
VERSIONS = (2, 3)
COLUMN, KEY = "column", "key"

# As what, which sample, in which format version, by which reader.
Cell = tuple[str, str, int, str]


@dataclass
class Proof:
    """The results: correct cells, and the errors in the others."""

    java: IcebergJava
    read: Mapping[str, Read]
    folder: Path
    seen: dict[Cell, str | None] = field(default_factory=dict)

    def columns(self) -> None:
        """All samples as columns, in as few mirrors as their types allow."""
        older = [one for one in SAMPLES if one.since == VERSIONS[0]]
        newer = [
            [one] for one in SAMPLES if one.since > VERSIONS[0]
        ]  # a reader may not even open a table with one
        for version in VERSIONS:
            for at, samples in enumerate([older, *(newer if version > VERSIONS[0] else ())]):
                typed = mirror_columns(self.folder / f"columns-{version}-{at}", samples, version)
                for reader in READERS:
                    self._all_of(typed, samples, version, reader)

    def _all_of(self, typed: Typed, samples: list[Sample], version: int, reader: str) -> None:
        """Everything at once if the reader can, else sample by sample."""
        every = [name for names in typed.names.values() for name in names]
        at_once = try_reading(self.read[reader], typed, every)
        for sample in samples:
            cell = COLUMN, sample.name, version, reader
            names = typed.names[sample.name]
            wrong = at_once and try_reading(self.read[reader], typed, names)
            self.seen[cell] = self._own_limit(cell, typed, names, wrong)

    def keys(self) -> None:
        """All samples that may be keys, and keys of eight columns."""
        for version in VERSIONS:
            for sample in (*(one for one in SAMPLES if one.key), *COMPOSITES):
                if sample.since > version:
                    continue
                tables = [
                    mirror_keys(self.folder / f"key-{version}-{len(self.seen)}-{at}", columns, version)
                    for at, columns in enumerate(key_tables(sample))
                ]
                for reader in READERS:
                    cell = KEY, sample.name, version, reader
                    self.seen[cell] = None
                    for typed in tables:
                        names = typed.names["key"]
                        wrong = try_reading(self.read[reader], typed, names)
                        self.seen[cell] = self.seen[cell] or self._own_limit(cell, typed, names, wrong)

    def _own_limit(self, cell: Cell, typed: Typed, names: tuple[str, ...], wrong: str | None) -> str | None:
        """The error, if any. It must occur with a table of Iceberg Java, too, and be a known limit."""
        if wrong is None:
            return None
        reader = cell[-1]
        assert limit_of(cell) is not None, f"{cell}: {wrong}"
        control = written_by_java(self.java, typed, names, self.folder / f"control-{len(self.seen)}")
        theirs = try_reading(self.read[reader], typed, names, control)
        assert theirs is not None, f"{cell}: only in our table: {wrong}"
        return wrong


def limit_of(cell: Cell) -> str | None:
    """The known limit of a reader that does not read a cell."""
    _, sample, version, reader = cell
    return LIMITS.get((reader, sample, version)) or LIMITS.get((reader, sample, None))


def prove(java: IcebergJava, folder: Path) -> str:
    """The page, from current results."""
    with connect_duckdb(iceberg=True) as duck:
        proof = Proof(java, readers(java, duck), folder)
        proof.columns()
        proof.keys()
    stale = [
        limit
        for limit in LIMITS
        if not any(wrong and _is_of(limit, cell) for cell, wrong in proof.seen.items())
    ]
    assert not stale, f"read by now: {stale}"
    return render(
        proof.seen,
        {name: refuse(one, folder / f"refused-{at}") for at, (name, one) in enumerate(REFUSALS.items())},
    )


def _is_of(limit: tuple[str, str, int | None], cell: Cell) -> bool:
    reader, sample, version = limit
    return cell[1] == sample and cell[3] == reader and version in (None, cell[2])


def render(seen: Mapping[Cell, str | None], refusals: Mapping[str, str]) -> str:
    """The page as text."""
    notes: list[str] = []
    parts = [
        _HEAD,
        _table(seen, notes),
        "## Limits of readers\n\nEach also occurs with the same rows in a table written by Iceberg Java.\n",
        "\n".join(f"{number}. {note}" for number, note in enumerate(notes, 1)) + "\n",
        "## Refused types\n\nA merge refuses these before it writes any row:\n",
        "| what | message |\n|---|---|",
        "\n".join(f"| {names} | {words} |" for names, words in _grouped(refusals)) + "\n",
    ]
    return "\n".join(parts)


def _grouped(refusals: Mapping[str, str]) -> list[tuple[str, str]]:
    """Names that are refused with the same message, but for the type in it, share a row."""
    groups: dict[str, list[str]] = {}
    for name, words in refusals.items():
        types = re.findall(r"`(.+?)`", name)
        groups.setdefault(re.sub(rf"\b({'|'.join(types)})\b", "…", words) if types else words, []).append(
            name
        )
    return [(", ".join(names), words) for words, names in groups.items()]


def _table(seen: Mapping[Cell, str | None], notes: list[str]) -> str:
    """A row for each sample: as a column, and as a key where Iceberg allows that."""
    lines = ["| type | values | as a column | as a key |", "|---|---|---|---|"]
    for sample in (*SAMPLES, *COMPOSITES):
        since = f" (v{sample.since})" if sample.since > VERSIONS[0] else ""
        verdicts = " | ".join(_verdict(seen, role, sample, notes) for role in (COLUMN, KEY))
        lines.append(f"| `{sample.name}`{since} | {sample.values} | {verdicts} |")
    return "\n".join(lines) + "\n"


def _verdict(seen: Mapping[Cell, str | None], role: str, sample: Sample, notes: list[str]) -> str:
    """✓ if every reader reads it in every version that has it; else with the notes on those that do not."""
    cells = [cell for cell in seen if cell[:2] == (role, sample.name)]
    if not cells:
        return ""
    limits = dict.fromkeys(_note(cell, notes) for cell in cells if seen[cell] is not None)
    return f"✓ except {', '.join(limits)}" if limits else "✓"


def _note(cell: Cell, notes: list[str]) -> str:
    """A link to what is known of a reader that does not read a cell."""
    note = f"{cell[-1]}: {limit_of(cell)}"
    if note not in notes:
        notes.append(note)
    return f"[{notes.index(note) + 1}](#limits-of-readers)"


_HEAD = """\
# Types

<!-- written by `python -m tests.interop.types_page`; `tests/interop/test_types.py` fails where it differs -->

Rows go from the changelog's Parquet files to the mirror's as Arrow, never through Spark's types. Each type below was
inserted, updated and deleted by merges in format versions 2 and 3, and read by PyIceberg, DuckDB and Iceberg Java. ✓
means that every value is equal, bit by bit: −0.0 is not 0.0, and NULL is not empty. (v3) marks types that only format
version 3 has.

Keys have up to eight columns and are compared as values: the decimals `1.5` and `1.50` are one key; composed and
decomposed `é` are two.
"""


def main() -> None:
    """Writes the page."""
    os.environ["JAVA_HOME"] = str(find_java(os.environ))
    os.environ["SPARK_LOCAL_HOSTNAME"] = "localhost"
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        with IcebergJava.launch([maven.jar(ICEBERG_JAR), maven.jar(SQLITE_JAR)], folder) as java:
            PAGE.write_text(prove(java, folder / "lab"), encoding="utf-8")


if __name__ == "__main__":
    main()
