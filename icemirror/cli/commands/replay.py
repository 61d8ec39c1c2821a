"""`icemirror replay`: requests a replay or a rebuild from the trigger."""

from __future__ import annotations

import time
import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from icemirror.cli.setup.configuration import config_option, load_configuration
from icemirror.cli.setup.tables import select_trigger_tables, table_option
from icemirror.cli.terminal.console import err, out, print_error, print_hint, print_json
from icemirror.cli.terminal.text import examples, format_count
from icemirror.errors import Exit

if TYPE_CHECKING:
    from icemirror.protocol.replay import Replay
    from icemirror.result import ReplayPlan
    from icemirror.settings import Settings, TableSettings

_CLOCK_SKEW_SECONDS = 60.0  # the clock of a committer may be ahead


@click.command(
    epilog=examples(
        "icemirror replay -t shop.orders --since 2h --dry-run",
        "icemirror replay -t shop.orders --from-snapshot 1396200587324517661",
        "icemirror replay -t shop.orders --full --wait",
    )
)
@config_option
@table_option
@click.option("--from-snapshot", type=int, metavar="S", help="Start at this changelog snapshot.")
@click.option(
    "--since", metavar="TIME", help="Start at the first snapshot at or after this time: 2026-05-01T10:00, 2h."
)
@click.option(
    "--full",
    is_flag=True,
    help="Rebuild the mirror from the whole changelog, invisibly to readers until the swap.",
)
@click.option("--to-snapshot", type=int, metavar="S", help="End at this snapshot.  [default: the cursor]")
@click.option("--dry-run", is_flag=True, help="Show what would be read; request nothing.")
@click.option("--wait", is_flag=True, help="Show progress until it is done or requires action.")
@click.option("--cancel", is_flag=True, help="Cancel the table's pending or running replay.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def replay(
    config: str | None,
    name: str,
    from_snapshot: int | None,
    since: str | None,
    full: bool,
    to_snapshot: int | None,
    dry_run: bool,
    wait: bool,
    cancel: bool,
    as_json: bool,
) -> int:
    """Request a replay from the trigger: merge a range of the changelog again, or (--full) rebuild the mirror.

    Give one of --from-snapshot, --since, --full and --cancel. Only events newer than the mirror's rows apply: rows
    never go back to an older state. A replay waits for its turn like any merge, so only one job works on a table at a
    time.
    """
    if [from_snapshot is not None, since is not None, full, cancel].count(True) != 1:
        raise click.UsageError("give one of --from-snapshot, --since, --full and --cancel")
    if to_snapshot is not None and (full or cancel):
        raise click.UsageError("--to-snapshot requires --from-snapshot or --since")
    if (dry_run and (wait or cancel)) or (wait and cancel):
        raise click.UsageError("give at most one of --dry-run, --wait and --cancel")
    now = time.time()
    since_ms = None if since is None else _parse_since_ms(since, now)
    settings = load_configuration(config)
    (table,) = select_trigger_tables(settings, (name,))
    if cancel:
        return _cancel(settings, table, as_json=as_json)
    from icemirror.protocol.replay import Replay

    request = Replay(uuid.uuid4().hex[:12], now, full, from_snapshot, since_ms, to_snapshot)
    plan = _plan(settings, table, request, required=dry_run)
    if dry_run:
        _show_plan(plan, as_json=as_json)
        return Exit.DONE
    return _request(settings, table, request, plan, wait=wait, as_json=as_json)


def _parse_since_ms(text: str, now: float) -> int:
    """Parse an ISO 8601 time, UTC without an offset, or a duration before now; return milliseconds since 1970."""
    from icemirror.settings.quantities import parse_seconds

    try:
        time_ = datetime.fromisoformat(text)
        since = (time_ if time_.tzinfo else time_.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        try:
            age_seconds = parse_seconds(text)
        except ValueError:
            hint = f"{text!r} is neither a time like 2026-05-01T10:00 nor a duration like 2h"
            raise click.BadParameter(hint, param_hint="'--since'") from None
        if age_seconds > now:
            hint = f"{text!r} is before 1970; for the whole changelog give --since 1970-01-01, or --full"
            raise click.BadParameter(hint, param_hint="'--since'") from None
        since = now - age_seconds
    if since > now + _CLOCK_SKEW_SECONDS:
        hint = f"{text!r} is in the future; a time without an offset is UTC, now is {_iso(now)}"
        raise click.BadParameter(hint, param_hint="'--since'")
    return max(0, int(1000 * since))


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def _plan(settings: Settings, table: TableSettings, request: Replay, *, required: bool) -> ReplayPlan | None:
    """Plan the replay, to raise its errors now instead of in the job; None if the job is not installed."""
    try:
        from spark_job.rebuild.replay import plan_replay
        from spark_job.worker.wiring import build_pipeline
    except ModuleNotFoundError:
        if required:
            raise
        return None
    return plan_replay(build_pipeline(settings, run_id="replay"), table, request)


def _show_plan(plan: ReplayPlan | None, *, as_json: bool) -> None:
    if plan is None:
        return
    if as_json:
        print_json(plan.model_dump(mode="json"))
        return
    grid = Table("table", "action", box=None, pad_edge=False, header_style="bold")
    for column in ("snapshots", "files", "bytes", "events", "commits"):
        grid.add_column(column, justify="right")
    action = "rebuilds the mirror" if plan.full else f"replays {plan.from_snapshot} to {plan.to_snapshot}"
    figures = (f"{plan.snapshots:,}", f"{plan.files:,}", decimal(plan.bytes))
    grid.add_row(Text(plan.table), action, *figures, f"{plan.events:,}", f"{plan.slices:,}")
    out.print(grid)


def _request(
    settings: Settings,
    table: TableSettings,
    request: Replay,
    plan: ReplayPlan | None,
    *,
    wait: bool,
    as_json: bool,
) -> int:
    from icemirror.cli.commands.replay_wait import wait_for_replay
    from icemirror.protocol.actions import ReplayRefused
    from icemirror.protocol.events import ReplayRequested, scheduling_options
    from icemirror.protocol.row_selection import ALL_ROWS
    from icemirror.protocol.waiting_reasons import missing_trigger_reason
    from icemirror.stores.apply import apply
    from icemirror.stores.from_settings import build_policy, open_store

    policy = build_policy(settings)
    with open_store(settings) as store:
        event = ReplayRequested(request.requested_at, table.name, scheduling_options(table), request)
        match apply(store, event, policy).actions:
            case (ReplayRefused(current),):
                requested_at = _iso(current.requested_at)
                print_error(
                    f"{table.name}: the replay requested at {requested_at} is not done. Wait for it, or cancel it: "
                    f"icemirror replay --table {table.name} --cancel"
                )
                return Exit.RETRY_LATER
        if reason := missing_trigger_reason(store.load(ALL_ROWS), table.name, time.time(), policy):
            print_hint(f"{table.name}: {reason}")
        if wait:
            return wait_for_replay(store, table.name, request, err, as_json=as_json, policy=policy)
    result: dict[str, Any] = {"table": table.name, "replay_id": request.id, "outcome": "asked"}
    if as_json:
        print_json(result | {"plan": plan.model_dump(mode="json") if plan else None})
    else:
        noun = "rebuild" if request.full else "replay"
        events = f" {'from' if request.full else 'of'} {format_count(plan.events, 'event')}" if plan else ""
        out.print(f"{table.name}: requested a {noun}{events}; `icemirror status` shows its progress")
    return Exit.DONE


def _cancel(settings: Settings, table: TableSettings, *, as_json: bool) -> int:
    from icemirror.protocol.events import ReplayCancelled
    from icemirror.protocol.row_selection import NO_SLOTS, RowSelection
    from icemirror.stores.apply import apply
    from icemirror.stores.from_settings import build_policy, open_store

    with open_store(settings) as store:
        row = store.load(RowSelection(frozenset({table.name}), NO_SLOTS)).tables.get(table.name)
        current = row.replay if row else None
        if current is not None:
            apply(store, ReplayCancelled(time.time(), table.name, current.id), build_policy(settings))
    if as_json:
        outcome = "cancelled" if current else "none"
        print_json({"table": table.name, "replay_id": current.id if current else None, "outcome": outcome})
    elif current is None:
        print_hint(f"{table.name}: no replay is waiting or running")
    else:
        out.print(f"{table.name}: replay cancelled; rows that it changed stay")
    return Exit.DONE
