"""`icemirror replay`: asks the trigger to merge a part of a changelog once more, or to rebuild a mirror."""

from __future__ import annotations

import time
import uuid
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from icemirror.cli.console import config_option, err, load, out, print_error, print_hint, print_json
from icemirror.errors import Exit

if TYPE_CHECKING:
    from icemirror.result import ReplayPlan
    from icemirror.settings import Settings, TableSettings
    from icemirror.state.replay import Replay

_CLOCKS_DIFFER_SECONDS = 60.0  # a commit of this very moment may be a little ahead


@click.command()
@config_option
@click.option("-t", "--table", "name", required=True, metavar="T", help="The table.")
@click.option("--from-snapshot", type=int, metavar="S", help="From this snapshot of the changelog on.")
@click.option(
    "--since", metavar="TIME", help="From the first one at or after this time: 2026-05-01T10:00, 2h."
)
@click.option(
    "--full", is_flag=True, help="Rebuild the mirror from the whole changelog, out of readers' sight."
)
@click.option(
    "--to-snapshot", type=int, metavar="S", help="Up to this snapshot, instead of all that is merged."
)
@click.option("--dry-run", is_flag=True, help="Show what would be read; ask for nothing.")
@click.option("--wait", is_flag=True, help="Show progress until it is done, or needs a person.")
@click.option("--cancel", is_flag=True, help="Take back the replay that waits or is under way.")
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
    """Ask the trigger to merge a part of the changelog once more, or (--full) to rebuild the mirror.

    Only what is newer than the mirror's rows applies: rows are never turned back. It waits for its turn like any
    merge, so that never two jobs work on the table.
    """
    if [from_snapshot is not None, since is not None, full, cancel].count(True) != 1:
        raise click.UsageError("give one of --from-snapshot, --since, --full and --cancel")
    if to_snapshot is not None and (full or cancel):
        raise click.UsageError("--to-snapshot goes with --from-snapshot or --since")
    if (dry_run and (wait or cancel)) or (wait and cancel):
        raise click.UsageError("give one of --dry-run, --wait and --cancel")
    now = time.time()
    since_ms = None if since is None else _since_ms(since, now)
    settings = load(config)
    table = _choose(settings, name)
    if cancel:
        return _cancel(settings, table, as_json=as_json)
    from icemirror.state.replay import Replay

    asked = Replay(uuid.uuid4().hex[:12], now, full, from_snapshot, since_ms, to_snapshot)
    plan = _plan(settings, table, asked, needed=dry_run)
    if dry_run:
        _show_plan(plan, as_json=as_json)
        return Exit.DONE
    return _ask(settings, table, asked, plan, wait=wait, as_json=as_json)


def _since_ms(text: str, now: float) -> int:
    """Milliseconds since 1970, of a time as ISO 8601 has it (UTC unless it says otherwise), or so long ago."""
    from icemirror.settings.quantities import parse_seconds

    try:
        at = datetime.fromisoformat(text)
        since = (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        try:
            ago = parse_seconds(text)
        except ValueError:
            hint = f"{text!r} is neither a time like 2026-05-01T10:00 nor a duration like 2h"
            raise click.BadParameter(hint, param_hint="--since") from None
        if ago > now:
            hint = f"{text!r} is longer ago than 1970; for all of the changelog give --since 1970-01-01, or --full"
            raise click.BadParameter(hint, param_hint="--since") from None
        since = now - ago
    if since > now + _CLOCKS_DIFFER_SECONDS:
        hint = f"{text!r} lies in the future; a time without an offset is UTC, it is {_iso(now)} now"
        raise click.BadParameter(hint, param_hint="--since")
    return max(0, int(1000 * since))


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")


def _choose(settings: Settings, name: str) -> TableSettings:
    from trigger.registry import Registry

    with closing(Registry(settings)) as registry:
        registry.refresh()
        if registry.problem is not None:
            print_error(f"discover: {registry.problem}")
        (table,) = registry.choose((name,), None)
    return table


def _plan(settings: Settings, table: TableSettings, asked: Replay, *, needed: bool) -> ReplayPlan | None:
    """What would be read, or an error that is better told now than by the job; None where no job is installed."""
    try:
        from spark_job.replays.replay import plan_replay
        from spark_job.wiring import build_pipeline
    except ModuleNotFoundError:
        if needed:
            raise
        return None
    return plan_replay(build_pipeline(settings, run_id="replay"), table, asked)


def _show_plan(plan: ReplayPlan | None, *, as_json: bool) -> None:
    if plan is None:
        return
    if as_json:
        print_json(plan.model_dump(mode="json"))
        return
    grid = Table("table", "does", box=None, pad_edge=False, header_style="bold")
    for column in ("snapshots", "files", "bytes", "events", "slices"):
        grid.add_column(column, justify="right")
    does = "rebuilds the mirror" if plan.full else f"replays {plan.from_snapshot} to {plan.to_snapshot}"
    figures = (f"{plan.snapshots:,}", f"{plan.files:,}", decimal(plan.bytes))
    grid.add_row(Text(plan.table), does, *figures, f"{plan.events:,}", f"{plan.slices:,}")
    out.print(grid)


def _ask(
    settings: Settings,
    table: TableSettings,
    asked: Replay,
    plan: ReplayPlan | None,
    *,
    wait: bool,
    as_json: bool,
) -> int:
    from icemirror.cli.replay_wait import await_end
    from icemirror.state.actions import Refused
    from icemirror.state.apply import apply
    from icemirror.state.attendance import nobody_there
    from icemirror.state.configured import open_store, policy_of
    from icemirror.state.events import ReplayRequested
    from icemirror.state.reads import EVERYTHING
    from icemirror.state.terms import terms_of

    policy = policy_of(settings)
    with open_store(settings) as store:
        event = ReplayRequested(asked.requested_at, table.name, terms_of(table), asked)
        match apply(store, event, policy).actions:
            case (Refused(there),):
                at = _iso(there.requested_at)
                print_error(
                    f"{table.name}: a replay asked for at {at} is not done yet. Wait for it, or take it back: "
                    f"icemirror replay --table {table.name} --cancel"
                )
                return Exit.RETRY_LATER
        if why := nobody_there(store.load(EVERYTHING), table.name, time.time(), policy):
            print_hint(f"{table.name}: {why}")
        if wait:
            return await_end(store, table.name, asked, err, as_json=as_json, policy=policy)
    told: dict[str, Any] = {"table": table.name, "replay_id": asked.id, "outcome": "asked"}
    if as_json:
        print_json(told | {"plan": plan.model_dump(mode="json") if plan else None})
    else:
        events = f" of {plan.events:,} events" if plan else ""
        out.print(f"{table.name}: asked for a replay{events}; `icemirror status` shows how far it is")
    return Exit.DONE


def _cancel(settings: Settings, table: TableSettings, *, as_json: bool) -> int:
    from icemirror.state.apply import apply
    from icemirror.state.configured import open_store, policy_of
    from icemirror.state.events import ReplayCancelled
    from icemirror.state.reads import NO_SLOT, Reads

    with open_store(settings) as store:
        row = store.load(Reads(frozenset({table.name}), NO_SLOT)).tables.get(table.name)
        there = row.replay if row else None
        if there is not None:
            apply(store, ReplayCancelled(time.time(), table.name, there.id), policy_of(settings))
    if as_json:
        outcome = "cancelled" if there else "none"
        print_json({"table": table.name, "replay_id": there.id if there else None, "outcome": outcome})
    elif there is None:
        print_hint(f"{table.name}: no replay waits or is under way")
    else:
        out.print(f"{table.name}: the replay was taken back; what it has changed stays")
    return Exit.DONE
