"""The sections about the index, storage, memory and reading."""

from __future__ import annotations

from benchmarks.markdown import write_section, write_table
from benchmarks.result import Lookups, Memory, Reading, Run, Storages
from benchmarks.summary import spread
from benchmarks.systems.catalogue import OURS

_MEGABYTE = 1e6
_MILLISECONDS = 1e3


def write_lookups(run: Run) -> str:
    """Return the section on lookups: milliseconds by codec and size."""
    found = run.outcome("lookup", OURS)
    if not isinstance(found, Lookups):
        return ""
    rows: list[list[str]] = []
    for lookup in found.lookups:
        later = spread([_MILLISECONDS * seconds for seconds in lookup.seconds])
        rows.append(
            [
                lookup.codec,
                f"{lookup.entries:,}",
                f"{lookup.first_seconds * _MILLISECONDS:.0f}",
                f"**{later.middle:.0f}** ({later.low:.0f}–{later.high:.0f})",
                f"{lookup.bytes / lookup.entries:.1f}",
            ]
        )
    text = (
        f"{found.lookups[0].keys:,} random keys, half of them present, in one segment, files in the page cache. Every "
        "other id is missing from the ordered index, so it has entries instead of runs."
    )
    header = ["codec", "entries", "first, ms", "later, ms", "B/entry"]
    return write_section("Index lookups", text, write_table(header, rows))


def write_storages(run: Run) -> str:
    """Return the section on storage: bytes compared with plain Parquet."""
    found = run.outcome("storage", OURS)
    if not isinstance(found, Storages):
        return ""
    rows = [
        [
            table.name,
            f"{table.rows:,}",
            f"{table.plain_bytes / table.rows:.0f}",
            *(f"{inspection.index_bytes / table.rows:.2f}" for inspection in (table.copied, table.updated)),
            *(
                f"{inspection.disk_bytes / table.plain_bytes - 1:+.1%}"
                for inspection in (table.copied, table.updated)
            ),
        ]
        for table in found.tables
    ]
    text = (
        "Data, deletes, metadata and index of a mirror, compared with plain Parquet of the same rows. Measured after "
        "the initial copy, and after updates of 1 % of the rows. `streamed`: every row has a different sequence. "
        "`uuid`, `text`: uuids as text, hashed."
    )
    header = ["rows", "count", "plain, B/row", "index, B/row", "… updated", "over plain Parquet", "… updated"]
    return write_section("Storage", text, write_table(header, rows))


def write_memory(run: Run) -> str:
    """Return the section on memory: the peak, in total and by process."""
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
    """Return the section on reading: scans of the mirror and of its copy."""
    found = run.outcome("reading", OURS)
    if not isinstance(found, Reading):
        return ""
    rows: list[list[str]] = []
    for reader in found.readers:
        merged, compacted = spread(reader.merged), spread(reader.compacted)
        rows.append(
            [
                reader.name,
                *(f"{scan.middle:.2f} ({scan.low:.2f}–{scan.high:.2f})" for scan in (merged, compacted)),
                f"{merged.middle / compacted.middle:.2f} ×",
            ]
        )
    text = (
        f"Full scans after {found.merges} merges ({found.title}), with automatic compaction only, and of a rewritten "
        "copy."
    )
    left_out = "\n".join(f"- Left out: {name}: {reason}" for name, reason in found.left_out.items())
    header = ["reader", "mirror, s", "copy, s", "ratio"]
    return write_section("Reading after many merges", text, write_table(header, rows), left_out)
