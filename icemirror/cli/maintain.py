"""`icemirror maintain`: keeps mirrors small."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import click
from rich.filesize import decimal
from rich.text import Text

from icemirror.cli.console import (
    config_option,
    err,
    load,
    out,
    print_error,
    print_hint,
    print_json,
    print_json_error,
)
from icemirror.cli.fitting import Column, fit, numbers
from icemirror.cli.plan import choose_tables
from icemirror.errors import NO_MIRROR_YET, Exit, IcemirrorError, Invalid, exit_code, worst

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
_USUAL = (_EXPIRE, _CLEAN_ORPHANS)
_USUAL_AGE = "24h"
_LEAST_AGE = "7h"  # a worker gives up a slice after six
_SHOWN = 20


class _NoMirrorYet(Invalid):
    """Wrong only for who asked for this very table."""


@click.command()
@config_option
@click.option("-t", "--table", "names", multiple=True, metavar="T", help="Only this table; may be repeated.")
@click.argument("action", required=False, type=click.Choice([*_USUAL, _COMPACT, _INDEX]))
@click.option("--dry-run", is_flag=True, help="Show what would be done, change nothing.")
@click.option(
    "--older-than",
    metavar="AGE",
    help="clean-orphans: keep younger files, which a merge under way may be about to commit. At least 7h.  "
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
    """Remove what mirrors do not need any more, or put small files together. Without an ACTION, the first two:

    \b
    expire         old snapshots, by the properties of the table, and the files that only they reached
    clean-orphans  files in the table's places that nothing names: those of crashed attempts, and those
                   that a job was not allowed to delete
    compact        small data files become fewer, larger ones; no row changes, and the key index follows
    index          every checksum of the key index is read; what is damaged is rebuilt, what others
                   wrote is taken in, and runs that are due are merged

    Merges expire and compact by themselves; this is for tables that nobody merges into, or that have `compact: false`,
    and for roles that may delete where jobs may not. They also mend an index when they meet with damage. The last two
    read the changelog as well. Safe beside running merges. Without --table, tables that have no mirror yet are skipped.
    """
    from icemirror.telemetry.configured import open_report, start_logs
    from icemirror.telemetry.logs import bind, get_log
    from spark_job.wiring import build_pipeline

    log = get_log(__name__)
    settings = load(config)
    debug = bool(click.get_current_context().find_root().params.get("debug"))
    start_logs(settings, quiet=err.is_terminal and not as_json, debug=debug)
    actions = (action,) if action else _USUAL
    if older_than is not None and _CLEAN_ORPHANS not in actions:
        by = "; the table's properties (history.expire.*) say which expire" if action == _EXPIRE else ""
        raise click.UsageError(f"--older-than is for clean-orphans, not for {action}{by}.")
    seconds = _age(older_than or _USUAL_AGE)
    results: list[MaintainResult] = []
    codes: list[Exit] = []
    report = open_report(settings)
    pipeline = build_pipeline(settings, run_id=f"maintain-{uuid.uuid4()}")
    for table in choose_tables(settings, names):
        done: list[MaintainResult] = []
        failure: Exception | None = None
        try:
            # (what was done before a failure is kept)
            done.extend(_run(pipeline, table, actions, dry_run=dry_run, older_than_seconds=seconds))
        except _NoMirrorYet as error:
            if not names:
                print_hint(f"{error} Skipped.")
            else:
                failure = error
        except IcemirrorError as error:
            failure = error
        except Exception as error:  # a defect of ours, or of a library: this table fails, the others go on
            with bind(table=table.name):
                log.failure("maintenance failed unexpectedly", error)
                report(error)
            failure = error
        results += done
        for result in done if as_json else ():
            print_json(result.model_dump(mode="json"))
        if failure is not None:
            codes.append(exit_code(failure))
            print_error(_told(table, failure))
            if as_json:
                print_json_error(table.name, failure)
    if not as_json and results:
        _show(results)
    return worst(codes)


def _told(table: TableSettings, error: Exception) -> str:
    from icemirror.failure import MORE, failure_of

    return (
        str(error)
        if isinstance(error, IcemirrorError)
        else f"{table.name}: {failure_of(error, MORE).message}"
    )


def _age(text: str) -> float:
    from icemirror.settings.quantities import parse_seconds

    try:
        seconds = parse_seconds(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--older-than") from error
    if seconds < parse_seconds(_LEAST_AGE):
        raise click.BadParameter(
            f"{text} is less than {_LEAST_AGE}: a slice may take 6 hours, and then commit files that are as old",
            param_hint="--older-than",
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
    from spark_job.compact_all import compact_all
    from spark_job.iceberg.failures import named_for
    from spark_job.maintenance.expire import expire
    from spark_job.maintenance.orphans import clean_orphans
    from spark_job.mend_index import mend_index

    index_location = pipeline.settings.index_location

    def load_mirror() -> IcebergTable:
        found = pipeline.catalogs.load_mirror(table)
        if found is None:
            raise _NoMirrorYet(f"{table.name}: {NO_MIRROR_YET}.")
        return found

    with named_for(table.name), bind(table=table.name):
        for action in actions:
            if action == _EXPIRE:
                yield expire(
                    load_mirror(),
                    table.name,
                    configured_index=index_location,
                    dry_run=dry_run,
                )
            elif action in (_COMPACT, _INDEX):
                load_mirror()
                do = compact_all if action == _COMPACT else mend_index
                yield do(pipeline, table, dry_run=dry_run)
            else:
                yield clean_orphans(
                    load_mirror,
                    table.name,
                    older_than_seconds=older_than_seconds,
                    configured_index=index_location,
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
        for path in result.paths[:_SHOWN] if result.dry_run else ():
            out.print(Text(f"  {path}"), soft_wrap=True)
        if result.dry_run and result.files > _SHOWN:
            out.print(f"  … and {result.files - _SHOWN:,} more (--json lists up to 1,000)")
        for place in result.unlisted:
            print_hint(f"{result.table}: {place} was left alone: not all that belongs there is known")
    for one in compacted:
        if one.waits:
            print_hint(
                f"{one.table}: others have written to it, or its index is lost: `icemirror maintain -t {one.table} "
                "index` takes care of that, as the next merge that finds changes does; compact after that"
            )
    for index in indexes:
        if index.waits:
            print_hint(f"{index.table}: nothing was merged into it yet; the first merge mends its index")
    if any(result.left for result in expired) or any(result.left for result in orphans):
        print_hint("Files were left where storage refused to delete them; run this with a role that may.")
    if any(result.dry_run for result in results):
        print_hint("Nothing was changed (--dry-run).")


def _render_expired(results: list[ExpireResult]) -> Table | Group:
    return _fitted(
        results,
        numbers("snapshots expired", [result.snapshots for result in results]),
        numbers("retained", [result.retained for result in results]),
        numbers("files deleted", [result.files for result in results]),
        numbers("left", [result.left for result in results]),
    )


def _render_compacted(results: list[CompactResult]) -> Table | Group:
    after = ["–" if result.dry_run else f"{result.files_after:,}" for result in results]
    return _fitted(
        results,
        numbers("small files", [result.files_before for result in results]),
        Column("became", [Text(text) for text in after], "right"),
        numbers("rows moved", [result.rows for result in results]),
        numbers("commits", [result.commits for result in results]),
        numbers("left", [result.left for result in results]),
    )


def _render_indexes(results: list[IndexResult]) -> Table | Group:
    damaged = ["all: its root is gone" if result.lost else f"{result.damaged:,}" for result in results]
    after = ["–" if result.dry_run else f"{result.runs_after:,}" for result in results]
    return _fitted(
        results,
        numbers("segments checked", [result.segments for result in results]),
        Column("damaged", [Text(text) for text in damaged], "right"),
        Column("others wrote", [Text("yes" if result.behind else "no") for result in results], "right"),
        numbers("runs", [result.runs_before for result in results]),
        Column("became", [Text(text) for text in after], "right"),
        numbers("commits", [result.commits for result in results]),
    )


def _render_orphans(results: list[OrphansResult]) -> Table | Group:
    return _fitted(
        results,
        numbers("files listed", [result.listed for result in results]),
        numbers("too young", [result.young for result in results]),
        numbers("orphans deleted", [result.files for result in results]),
        Column("bytes", [Text(decimal(result.bytes)) for result in results], "right"),
        numbers("left", [result.left for result in results]),
    )


def _fitted(results: Sequence[MaintainResult], *columns: Column) -> Table | Group:
    """The columns behind the tables' names."""
    return fit([Column("table", [Text(result.table) for result in results]), *columns], out.width)
