"""`icemirror maintain`: expires snapshots, cleans orphans, compacts files, repairs the index."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from icemirror.cli.commands.maintain_results import print_results
from icemirror.cli.setup.configuration import config_option, load_configuration
from icemirror.cli.setup.pipeline import open_pipeline
from icemirror.cli.setup.tables import select_job_tables, tables_option
from icemirror.cli.terminal.console import print_error, print_hint, print_json, print_json_error
from icemirror.cli.terminal.text import examples
from icemirror.errors import NO_MIRROR_YET, Exit, IcemirrorError, Invalid, exit_code, worst_exit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.table import Table as IcebergTable

    from icemirror.result import MaintainResult
    from icemirror.settings import TableSettings
    from spark_job.pipeline import Pipeline

_EXPIRE = "expire"
_CLEAN_ORPHANS = "clean-orphans"
_COMPACT = "compact"
_INDEX = "index"
_DEFAULT_ACTIONS = (_EXPIRE, _CLEAN_ORPHANS)
_DEFAULT_AGE = "24h"
_MIN_AGE = "7h"  # a slice may take six hours


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
    from icemirror.telemetry.logs import bind, get_log
    from icemirror.telemetry.start_telemetry import open_report

    log = get_log(__name__)
    settings = load_configuration(config)
    actions = (action,) if action else _DEFAULT_ACTIONS
    if older_than is not None and _CLEAN_ORPHANS not in actions:
        hint = "; the table's properties (history.expire.*) decide that" if action == _EXPIRE else ""
        raise click.UsageError(f"--older-than is for clean-orphans, not for {action}{hint}.")
    seconds = _parse_age(older_than or _DEFAULT_AGE)
    results: list[MaintainResult] = []
    codes: list[Exit] = []
    pipeline = open_pipeline(settings, "maintain", as_json=as_json, commits=True)
    report = open_report(settings)
    for table in select_job_tables(settings, names):
        table_results: list[MaintainResult] = []
        failure: Exception | None = None
        try:
            # Actions done before a failure are reported too.
            table_results.extend(_run(pipeline, table, actions, dry_run=dry_run, older_than_seconds=seconds))
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
        results += table_results
        for result in table_results if as_json else ():
            print_json(result.model_dump(mode="json"))
        if failure is not None:
            codes.append(exit_code(failure))
            print_error(_describe_error(table, failure))
            if as_json:
                print_json_error(table.name, failure)
    if not as_json and results:
        print_results(results)
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
    from spark_job.commands.compact_table import compact_table
    from spark_job.commands.maintain_index import maintain_index
    from spark_job.maintenance.expire import expire
    from spark_job.maintenance.orphans import clean_orphans
    from spark_job.storage.translate_errors import translate_table_errors

    index_location = pipeline.settings.index_location

    def load_mirror() -> IcebergTable:
        mirror = pipeline.catalogs.load_mirror(table)
        if mirror is None:
            raise _NoMirrorYet(f"{table.name}: {NO_MIRROR_YET}.")
        return mirror

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
