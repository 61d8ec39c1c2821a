"""Prints the results of `icemirror maintain`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.filesize import decimal
from rich.text import Text

from icemirror.cli.terminal.columns import Column, count_column, fit_columns
from icemirror.cli.terminal.console import out, print_hint, print_result

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Group
    from rich.table import Table

    from icemirror.result import CompactResult, ExpireResult, IndexResult, MaintainResult, OrphansResult

_MAX_SHOWN_PATHS = 20


def print_results(results: Sequence[MaintainResult]) -> None:
    """Print a table per action, and what remains to do."""
    from icemirror.result import CompactResult, ExpireResult, IndexResult, OrphansResult

    compacted = [result for result in results if isinstance(result, CompactResult)]
    expired = [result for result in results if isinstance(result, ExpireResult)]
    orphans = [result for result in results if isinstance(result, OrphansResult)]
    indexes = [result for result in results if isinstance(result, IndexResult)]
    if expired:
        print_result(_render_expired(expired))
    if expired and orphans:
        out.print()
    if orphans:
        print_result(_render_orphans(orphans))
    if compacted:
        if expired or orphans:
            out.print()
        print_result(_render_compacted(compacted))
    if indexes:
        print_result(_render_indexes(indexes))
    for result in orphans:
        for path in result.paths[:_MAX_SHOWN_PATHS] if result.dry_run else ():
            out.print(Text(f"  {path}"), soft_wrap=True)
        if result.dry_run and result.files > _MAX_SHOWN_PATHS:
            out.print(f"  … and {result.files - _MAX_SHOWN_PATHS:,} more (--json lists up to 1,000)")
        for location in result.unlisted:
            print_hint(f"{result.table}: skipped, because not every table that uses it is known: {location}")
    for compaction in compacted:
        if compaction.waits:
            table = compaction.table
            print_hint(
                f"{table}: not compacted, because of foreign writes or an unreadable index. Run `icemirror maintain -t "
                f"{table} index`, or wait for the next merge; then compact"
            )
    for index in indexes:
        if index.waits:
            print_hint(f"{index.table}: nothing was merged yet; the first merge repairs its index")
    if any(result.left for result in expired) or any(result.left for result in orphans):
        print_hint("Storage refused to delete some files; run this with a role that may delete them.")
    if any(result.dry_run for result in results):
        print_hint("Nothing was changed (--dry-run).")


def _render_expired(results: list[ExpireResult]) -> Table | Group:
    return _fit_with_names(
        results,
        count_column("snapshots expired", [result.snapshots for result in results]),
        count_column("retained", [result.retained for result in results]),
        count_column("files deleted", [result.files for result in results]),
        count_column("not deleted", [result.left for result in results]),
    )


def _render_compacted(results: list[CompactResult]) -> Table | Group:
    files_after = ["–" if result.dry_run else f"{result.files_after:,}" for result in results]
    return _fit_with_names(
        results,
        count_column("small files", [result.files_before for result in results]),
        Column("after", [Text(text) for text in files_after], "right"),
        count_column("rows rewritten", [result.rows for result in results]),
        count_column("commits", [result.commits for result in results]),
        count_column("not compacted", [result.left for result in results]),
    )


def _render_indexes(results: list[IndexResult]) -> Table | Group:
    damaged = ["all: root missing" if result.lost else f"{result.damaged:,}" for result in results]
    runs_after = ["–" if result.dry_run else f"{result.runs_after:,}" for result in results]
    return _fit_with_names(
        results,
        count_column("segments checked", [result.segments for result in results]),
        Column("damaged", [Text(text) for text in damaged], "right"),
        Column("foreign writes", [Text("yes" if result.behind else "no") for result in results], "right"),
        count_column("runs before", [result.runs_before for result in results]),
        Column("runs after", [Text(text) for text in runs_after], "right"),
        count_column("commits", [result.commits for result in results]),
    )


def _render_orphans(results: list[OrphansResult]) -> Table | Group:
    return _fit_with_names(
        results,
        count_column("files listed", [result.listed for result in results]),
        count_column("too young", [result.young for result in results]),
        count_column("orphans deleted", [result.files for result in results]),
        Column("bytes", [Text(decimal(result.bytes)) for result in results], "right"),
        count_column("not deleted", [result.left for result in results]),
    )


def _fit_with_names(results: Sequence[MaintainResult], *columns: Column) -> Table | Group:
    """Return a table with the names of the tables as first column."""
    return fit_columns([Column("table", [Text(result.table) for result in results]), *columns], out.width)
