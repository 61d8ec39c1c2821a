"""Generates docs/reference/types.md from the behaviour of the readers.

    python -m tests.interop.types_page        rewrites the page

A failure of a reader must be a limit of the reader: the same columns and rows, in a table that Iceberg Java wrote,
must fail too. Otherwise the page is not written.
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
from tests.interop.iceberg_java import ICEBERG_JAR, SQLITE_JAR, IcebergJava
from tests.interop.type_lab import TypedMirror, key_tables, mirror_columns, mirror_keys
from tests.interop.type_limits import LIMITS
from tests.interop.type_readers import READERS, Read, readers, try_reading, written_by_java
from tests.interop.type_refusals import REFUSALS, refusal_message
from tests.interop.type_samples import COMPOSITES, SAMPLES, Sample
from tests.provision import maven

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "types.md"
VERSIONS = (2, 3)
COLUMN, KEY = "column", "key"

# Role (column or key), sample, format version, reader.
Cell = tuple[str, str, int, str]


@dataclass
class ReaderResults:
    """The results of the readers: the error of each cell, or None."""

    java: IcebergJava
    read: Mapping[str, Read]
    folder: Path
    errors: dict[Cell, str | None] = field(default_factory=dict)

    def columns(self) -> None:
        """Read all samples as columns, in as few mirrors as their types allow."""
        older = [sample for sample in SAMPLES if sample.since == VERSIONS[0]]
        newer = [
            [sample] for sample in SAMPLES if sample.since > VERSIONS[0]
        ]  # some readers cannot open a table with a newer type
        for version in VERSIONS:
            for index, samples in enumerate([older, *(newer if version > VERSIONS[0] else ())]):
                typed = mirror_columns(self.folder / f"columns-{version}-{index}", samples, version)
                for reader in READERS:
                    self._read_samples(typed, samples, version, reader)

    def _read_samples(self, typed: TypedMirror, samples: list[Sample], version: int, reader: str) -> None:
        """Read all samples at once, or one by one if that fails."""
        all_names = [name for names in typed.names.values() for name in names]
        combined_error = try_reading(self.read[reader], typed, all_names)
        for sample in samples:
            cell = COLUMN, sample.name, version, reader
            names = typed.names[sample.name]
            error = combined_error and try_reading(self.read[reader], typed, names)
            self.errors[cell] = self._check_limit(cell, typed, names, error)

    def keys(self) -> None:
        """Read all samples that may be keys, and keys of eight columns."""
        for version in VERSIONS:
            for sample in (*(sample for sample in SAMPLES if sample.key), *COMPOSITES):
                if sample.since > version:
                    continue
                tables = [
                    mirror_keys(self.folder / f"key-{version}-{len(self.errors)}-{index}", columns, version)
                    for index, columns in enumerate(key_tables(sample))
                ]
                for reader in READERS:
                    cell = KEY, sample.name, version, reader
                    self.errors[cell] = None
                    for typed in tables:
                        names = typed.names["key"]
                        error = try_reading(self.read[reader], typed, names)
                        self.errors[cell] = self.errors[cell] or self._check_limit(cell, typed, names, error)

    def _check_limit(
        self, cell: Cell, typed: TypedMirror, names: tuple[str, ...], error: str | None
    ) -> str | None:
        """Return the error, if any. It must be a known limit, and occur with a table of Iceberg Java too."""
        if error is None:
            return None
        reader = cell[-1]
        assert limit_of(cell) is not None, f"{cell}: {error}"
        control = written_by_java(self.java, typed, names, self.folder / f"control-{len(self.errors)}")
        control_error = try_reading(self.read[reader], typed, names, control)
        assert control_error is not None, f"{cell}: only in our table: {error}"
        return error


def limit_of(cell: Cell) -> str | None:
    """Return the known limit of a cell's reader, if any."""
    _, sample, version, reader = cell
    return LIMITS.get((reader, sample, version)) or LIMITS.get((reader, sample, None))


def generate_page(java: IcebergJava, folder: Path) -> str:
    """Run all readers and return the page."""
    with connect_duckdb(iceberg=True) as duck:
        results = ReaderResults(java, readers(java, duck), folder)
        results.columns()
        results.keys()
    stale = [
        limit
        for limit in LIMITS
        if not any(error and _limit_applies(limit, cell) for cell, error in results.errors.items())
    ]
    assert not stale, f"these limits no longer exist: {stale}"
    return render(
        results.errors,
        {
            name: refusal_message(refusal, folder / f"refused-{index}")
            for index, (name, refusal) in enumerate(REFUSALS.items())
        },
    )


def _limit_applies(limit: tuple[str, str, int | None], cell: Cell) -> bool:
    reader, sample, version = limit
    return cell[1] == sample and cell[3] == reader and version in (None, cell[2])


def render(errors: Mapping[Cell, str | None], refusals: Mapping[str, str]) -> str:
    """Return the page as text."""
    notes: list[str] = []
    parts = [
        _HEAD,
        _table(errors, notes),
        "## Limits of readers\n\nEach also occurs with the same rows in a table written by Iceberg Java.\n",
        "\n".join(f"{number}. {note}" for number, note in enumerate(notes, 1)) + "\n",
        "## Refused types\n\nA merge refuses these before it writes any row:\n",
        "| what | message |\n|---|---|",
        "\n".join(f"| {names} | {message} |" for names, message in _grouped(refusals)) + "\n",
    ]
    return "\n".join(parts)


def _grouped(refusals: Mapping[str, str]) -> list[tuple[str, str]]:
    """Group the names whose messages differ only in the type."""
    groups: dict[str, list[str]] = {}
    for name, message in refusals.items():
        types = re.findall(r"`(.+?)`", name)
        groups.setdefault(re.sub(rf"\b({'|'.join(types)})\b", "…", message) if types else message, []).append(
            name
        )
    return [(", ".join(names), message) for message, names in groups.items()]


def _table(errors: Mapping[Cell, str | None], notes: list[str]) -> str:
    """Return a table with a row per sample: as a column, and as a key if Iceberg allows it."""
    lines = ["| type | values | as a column | as a key |", "|---|---|---|---|"]
    for sample in (*SAMPLES, *COMPOSITES):
        since = f" (v{sample.since})" if sample.since > VERSIONS[0] else ""
        verdicts = " | ".join(_verdict(errors, role, sample, notes) for role in (COLUMN, KEY))
        lines.append(f"| `{sample.name}`{since} | {sample.values} | {verdicts} |")
    return "\n".join(lines) + "\n"


def _verdict(errors: Mapping[Cell, str | None], role: str, sample: Sample, notes: list[str]) -> str:
    """Return ✓ if every reader reads the sample in every version, with links to notes for the exceptions."""
    cells = [cell for cell in errors if cell[:2] == (role, sample.name)]
    if not cells:
        return ""
    limits = dict.fromkeys(_note(cell, notes) for cell in cells if errors[cell] is not None)
    return f"✓ except {', '.join(limits)}" if limits else "✓"


def _note(cell: Cell, notes: list[str]) -> str:
    """Return a link to the note on the limit of a cell."""
    note = f"{cell[-1]}: {limit_of(cell)}"
    if note not in notes:
        notes.append(note)
    return f"[{notes.index(note) + 1}](#limits-of-readers)"


_HEAD = """\
# Types

<!-- written by `python -m tests.interop.types_page`; `tests/interop/test_types.py` fails where it differs -->

✓: every value is read back equal by PyIceberg, DuckDB and Iceberg Java, in format versions 2 and 3, bit by bit. (v3)
marks types that only format version 3 has.

Keys have up to eight columns and are compared as values: the decimals `1.5` and `1.50` are one key; composed and
decomposed `é` are two.
"""


def main() -> None:
    """Write the page."""
    os.environ["JAVA_HOME"] = str(find_java(os.environ))
    os.environ["SPARK_LOCAL_HOSTNAME"] = "localhost"
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        with IcebergJava.launch([maven.jar(ICEBERG_JAR), maven.jar(SQLITE_JAR)], folder) as java:
            PAGE.write_text(generate_page(java, folder / "lab"), encoding="utf-8")


if __name__ == "__main__":
    main()
