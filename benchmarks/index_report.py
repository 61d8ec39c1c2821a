"""The sections about the index, storage, memory and reading."""

from __future__ import annotations

from benchmarks.markdown import write_section, write_table
from benchmarks.result import Lookups, Memory, Reading, Run, Storages
from benchmarks.summary import spread
from benchmarks.systems.catalogue import OURS

_MEGABYTE = 1e6
_MILLISECONDS = 1e3


def write_lookups(run: Run) -> str:
    """Milliseconds by codec and size."""
    found = run.outcome("lookup", OURS)
    if not isinstance(found, Lookups):
        return ""
    rows: list[list[str]] = []
    for one in found.lookups:
        later = spread([_MILLISECONDS * seconds for seconds in one.seconds])
        rows.append(
            [
                one.codec,
                f"{one.entries:,}",
                f"{one.first_seconds * _MILLISECONDS:.0f}",
                f"**{later.middle:.0f}** ({later.low:.0f}–{later.high:.0f})",
                f"{one.bytes / one.entries:.1f}",
            ]
        )
    words = (
        f"{found.lookups[0].keys:,} random keys, half of them present, in one segment, files in the page cache. Every "
        "other id is missing from the ordered index, so it has entries instead of runs."
    )
    header = ["codec", "entries", "first, ms", "later, ms", "B/entry"]
    return write_section("Index lookups", words, write_table(header, rows))


def write_storages(run: Run) -> str:
    """Bytes compared with plain Parquet."""
    found = run.outcome("storage", OURS)
    if not isinstance(found, Storages):
        return ""
    rows = [
        [
            table.name,
            f"{table.rows:,}",
            f"{table.plain_bytes / table.rows:.0f}",
            *(f"{one.index_bytes / table.rows:.2f}" for one in (table.copied, table.updated)),
            *(f"{one.disk_bytes / table.plain_bytes - 1:+.1%}" for one in (table.copied, table.updated)),
        ]
        for table in found.tables
    ]
    words = (
        "Data, deletes, metadata and index of a mirror, compared with plain Parquet of the same rows. Measured after "
        "the initial copy, and after updates of 1 % of the rows. `streamed`: every row has a different sequence. "
        "`uuid`, `text`: uuids as text, hashed."
    )
    header = ["rows", "count", "plain, B/row", "index, B/row", "… updated", "over plain Parquet", "… updated"]
    return write_section("Storage", words, write_table(header, rows))


def write_memory(run: Run) -> str:
    """The peak, and who had how much of it."""
    found = run.outcome("memory", OURS)
    if not isinstance(found, Memory):
        return ""
    parts = ", ".join(
        f"{name} {size / _MEGABYTE:,.0f} MB" for name, size in sorted(found.peak_by_process.items())
    )
    return write_section(
        "Memory",
        f"An initial load of {found.rows:,} rows took {found.seconds:.1f} s and at most "
        f"**{found.peak_bytes / _MEGABYTE:,.0f} MB** ({parts}). Spark's driver had 1 GB, the default.",
    )


def write_reading(run: Run) -> str:
    """Scans of the mirror and of its copy."""
    found = run.outcome("reading", OURS)
    if not isinstance(found, Reading):
        return ""
    rows: list[list[str]] = []
    for reader in found.readers:
        merged, compacted = spread(reader.merged), spread(reader.compacted)
        rows.append(
            [
                reader.name,
                *(f"{one.middle:.2f} ({one.low:.2f}–{one.high:.2f})" for one in (merged, compacted)),
                f"{merged.middle / compacted.middle:.2f} ×",
            ]
        )
    words = (
        f"Full scans after {found.merges} merges ({found.title}), with automatic compaction only, and of a rewritten "
        "copy."
    )
    left_out = "\n".join(f"- Left out: {name}: {reason}" for name, reason in found.left_out.items())
    header = ["reader", "mirror, s", "copy, s", "ratio"]
    return write_section("Reading after many merges", words, write_table(header, rows), left_out)
