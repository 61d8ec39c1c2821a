"""`icemirror maintain`: expires snapshots, cleans orphans, compacts files, repairs the index."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from rich.filesize import decimal
from rich.text import Text

from icemirror.cli.setup.pipeline import open_pipeline
from icemirror.cli.setup.tables import select_job_tables, tables_option
from icemirror.cli.terminal.columns import Column, count_column, fit_columns
from icemirror.cli.terminal.console import (
    config_option,
    load,
    out,
    print_error,
    print_hint,
    print_json,
    print_json_error,
)
from icemirror.cli.terminal.examples import examples
from icemirror.errors import NO_MIRROR_YET, Exit, IcemirrorError, Invalid, exit_code, worst_exit

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyiceberg.table import Table as IcebergTable
    from rich.console import Group
    from rich.table import Table

    from icemirror.result import CompactResult, ExpireResult, IndexResult, MaintainResult, OrphansResult
    from icemirror.settings import TableSettings
    from spark_job.pipeline import Pipeline

_EXPIRE = "expire"
_CLEAN_ORPHANS = "clean-orphans"
_COMPACT = "compact"
_INDEX = "index"
_DEFAULT_ACTIONS = (_EXPIRE, _CLEAN_ORPHANS)
_DEFAULT_AGE = "24h"
_MIN_AGE = "7h"  # a slice may take six hours
_MAX_SHOWN_PATHS = 20


class _NoMirrorYet(Invalid):
    """An error only if the user named this table."""


@click.command(
    epilog=examples(
        "icemirror maintain --dry-run",
        "icemirror maintain -t shop.orders compact",
        "icemirror maintain clean-orphans --older-than 7d",
    )
)
@config_option
@tables_option
@click.argument("action", required=False, type=click.Choice([*_DEFAULT_ACTIONS, _COMPACT, _INDEX]))
@click.option("--dry-run", is_flag=True, help="Show what would be done, change nothing.")
@click.option(
    "--older-than",
    metavar="AGE",
    help="With clean-orphans: keep younger files, which a running merge may still commit. At least 7h.  "
    "[default: 24h]",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object per table and action on stdout.")
def maintain(
    config: str | None,
    names: tuple[str, ...],
    action: str | None,
    dry_run: bool,
    older_than: str | None,
    as_json: bool,
) -> int:
    """Maintain mirrors. Without an ACTION, runs expire and clean-orphans.

    \b
    expire         expire old snapshots by the table's properties, and delete
                   files that only they reference
    clean-orphans  delete unreferenced files in the table's locations: those of
                   crashed attempts, and those that a job was not allowed to
                   delete
    compact        rewrite small data files into fewer, larger ones; no row
                   changes
    index          verify every checksum of the key index, rebuild damaged
                   segments, index foreign writes, and merge runs that are due

    Merges expire, compact and repair the index themselves. Use this command for tables without merges, for tables with
    `compact: false`, and for roles that may delete files where jobs may not. Safe while merges run. compact and index
    also read the changelog. Without --table, tables without a mirror are skipped.
    """
    from icemirror.telemetry.from_settings import open_report
    from icemirror.telemetry.logs import bind, get_log

    log = get_log(__name__)
    settings = load(config)
    actions = (action,) if action else _DEFAULT_ACTIONS
    if older_than is not None and _CLEAN_ORPHANS not in actions:
        by = "; the table's properties (history.expire.*) decide that" if action == _EXPIRE else ""
        raise click.UsageError(f"--older-than is for clean-orphans, not for {action}{by}.")
    seconds = _parse_age(older_than or _DEFAULT_AGE)
    results: list[MaintainResult] = []
    codes: list[Exit] = []
    pipeline = open_pipeline(settings, "maintain", as_json=as_json, commits=True)
    report = open_report(settings)
    for table in select_job_tables(settings, names):
        done: list[MaintainResult] = []
        failure: Exception | None = None
        try:
            # Actions done before a failure are reported too.
            done.extend(_run(pipeline, table, actions, dry_run=dry_run, older_than_seconds=seconds))
        except _NoMirrorYet as error:
            if not names:
                print_hint(f"{error} Skipped.")
            else:
                failure = error
        except IcemirrorError as error:
            failure = error
        except Exception as error:  # a defect: this table fails, the others continue
            with bind(table=table.name):
                log.failure("maintenance failed unexpectedly", error)
                report(error)
            failure = error
        results += done
        for result in done if as_json else ():
            print_json(result.model_dump(mode="json"))
        if failure is not None:
            codes.append(exit_code(failure))
            print_error(_describe_error(table, failure))
            if as_json:
                print_json_error(table.name, failure)
    if not as_json and results:
        _show(results)
    return worst_exit(codes)


def _describe_error(table: TableSettings, error: Exception) -> str:
    from icemirror.telemetry.error_results import DEBUG_HINT, to_error_result

    return (
        str(error)
        if isinstance(error, IcemirrorError)
        else f"{table.name}: {to_error_result(error, DEBUG_HINT).message}"
    )


def _parse_age(text: str) -> float:
    from icemirror.settings.quantities import parse_seconds

    try:
        seconds = parse_seconds(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="'--older-than'") from error
    if seconds < parse_seconds(_MIN_AGE):
        raise click.BadParameter(
            f"must be at least {_MIN_AGE}: a running merge may still commit files of that age",
            param_hint="'--older-than'",
        )
    return seconds


def _run(
    pipeline: Pipeline,
    table: TableSettings,
    actions: tuple[str, ...],
    *,
    dry_run: bool,
    older_than_seconds: float,
) -> Iterator[MaintainResult]:
    from icemirror.telemetry.logs import bind
    from spark_job.maintenance.expire import expire
    from spark_job.maintenance.orphans import clean_orphans
    from spark_job.storage.translate_errors import translate_table_errors
    from spark_job.worker.compact_table import compact_table
    from spark_job.worker.maintain_index import maintain_index

    index_location = pipeline.settings.index_location

    def load_mirror() -> IcebergTable:
        found = pipeline.catalogs.load_mirror(table)
        if found is None:
            raise _NoMirrorYet(f"{table.name}: {NO_MIRROR_YET}.")
        return found

    with translate_table_errors(table.name), bind(table=table.name):
        for action in actions:
            if action == _EXPIRE:
                yield expire(
                    load_mirror(),
                    table.name,
                    configured_location=index_location,
                    dry_run=dry_run,
                )
            elif action in (_COMPACT, _INDEX):
                load_mirror()
                run = compact_table if action == _COMPACT else maintain_index
                yield run(pipeline, table, dry_run=dry_run)
            else:
                yield clean_orphans(
                    load_mirror,
                    table.name,
                    older_than_seconds=older_than_seconds,
                    configured_location=index_location,
                    dry_run=dry_run,
                )


def _show(results: list[MaintainResult]) -> None:
    from icemirror.result import CompactResult, ExpireResult, IndexResult, OrphansResult

    compacted = [result for result in results if isinstance(result, CompactResult)]
    expired = [result for result in results if isinstance(result, ExpireResult)]
    orphans = [result for result in results if isinstance(result, OrphansResult)]
    indexes = [result for result in results if isinstance(result, IndexResult)]
    if expired:
        out.print(_render_expired(expired))
    if expired and orphans:
        out.print()
    if orphans:
        out.print(_render_orphans(orphans))
    if compacted:
        if expired or orphans:
            out.print()
        out.print(_render_compacted(compacted))
    if indexes:
        out.print(_render_indexes(indexes))
    for result in orphans:
        for path in result.paths[:_MAX_SHOWN_PATHS] if result.dry_run else ():
            out.print(Text(f"  {path}"), soft_wrap=True)
        if result.dry_run and result.files > _MAX_SHOWN_PATHS:
            out.print(f"  … and {result.files - _MAX_SHOWN_PATHS:,} more (--json lists up to 1,000)")
        for place in result.unlisted:
            print_hint(f"{result.table}: skipped, because not every table that uses it is known: {place}")
    for compaction in compacted:
        if compaction.waits:
            table = compaction.table
            print_hint(
                f"{table}: not compacted, because of foreign writes or a lost index. Run `icemirror maintain -t "
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
    return _fitted(
        results,
        count_column("snapshots expired", [result.snapshots for result in results]),
        count_column("retained", [result.retained for result in results]),
        count_column("files deleted", [result.files for result in results]),
        count_column("left", [result.left for result in results]),
    )


def _render_compacted(results: list[CompactResult]) -> Table | Group:
    after = ["–" if result.dry_run else f"{result.files_after:,}" for result in results]
    return _fitted(
        results,
        count_column("small files", [result.files_before for result in results]),
        Column("became", [Text(text) for text in after], "right"),
        count_column("rows moved", [result.rows for result in results]),
        count_column("commits", [result.commits for result in results]),
        count_column("left", [result.left for result in results]),
    )


def _render_indexes(results: list[IndexResult]) -> Table | Group:
    damaged = ["all: root missing" if result.lost else f"{result.damaged:,}" for result in results]
    after = ["–" if result.dry_run else f"{result.runs_after:,}" for result in results]
    return _fitted(
        results,
        count_column("segments checked", [result.segments for result in results]),
        Column("damaged", [Text(text) for text in damaged], "right"),
        Column("foreign writes", [Text("yes" if result.behind else "no") for result in results], "right"),
        count_column("runs", [result.runs_before for result in results]),
        Column("became", [Text(text) for text in after], "right"),
        count_column("commits", [result.commits for result in results]),
    )


def _render_orphans(results: list[OrphansResult]) -> Table | Group:
    return _fitted(
        results,
        count_column("files listed", [result.listed for result in results]),
        count_column("too young", [result.young for result in results]),
        count_column("orphans deleted", [result.files for result in results]),
        Column("bytes", [Text(decimal(result.bytes)) for result in results], "right"),
        count_column("left", [result.left for result in results]),
    )


def _fitted(results: Sequence[MaintainResult], *columns: Column) -> Table | Group:
    """Return the columns after the table names."""
    return fit_columns([Column("table", [Text(result.table) for result in results]), *columns], out.width)
