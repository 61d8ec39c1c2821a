"""What the trigger reports for the jobs that it launched: their results become its metrics and its log."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from icemirror.errors import NEEDS_PERSON, Kind
from icemirror.state.lag import lag_of, no_other
from icemirror.state.rows import Rows, TableRow
from icemirror.state.store import RunResult, Store
from icemirror.telemetry import names
from icemirror.telemetry.fold import fold_result, fold_standing
from icemirror.telemetry.logs import get_log
from icemirror.telemetry.metrics import Metrics
from trigger.lineages import Lineages

log = get_log(__name__)


@dataclass
class Reporting:
    """Folds the results that workers recorded since the last time, and where each table stands.

    `known`: the tables that are configured now. The row of another one stays as it is, and alarms nobody.
    """

    store: Store
    metrics: Metrics
    cursor: str
    lineages: Lineages | None = None
    known: Callable[[], frozenset[str]] | None = None
    _shown: frozenset[str] = frozenset()
    _quarantined: frozenset[str] = frozenset()

    def report(self, rows: Rows) -> None:
        """Once a round."""
        page = self.store.results_since(self.cursor)
        self.cursor = page.cursor
        for run in page.results:
            fold_result(self.metrics, run.result)
            _log_turn(run)
        known = None if self.known is None else self.known()
        tables = [row for row in rows.tables.values() if known is None or row.name in known]
        self._tell_quarantines(tables)
        self._tell_standings(tables)

    def _tell_standings(self, tables: Sequence[TableRow]) -> None:
        now, shown = time.time(), frozenset(row.name for row in tables)
        for gone in self._shown - shown:  # a gauge keeps its last value
            fold_standing(self.metrics, gone, lag_seconds=0.0, lag_snapshots=0)
        self._shown = shown
        for row in tables:
            lag = lag_of(row, now, self.lineages.left if self.lineages else no_other)
            fold_standing(
                self.metrics,
                row.name,
                lag_seconds=lag.seconds or 0.0,
                lag_snapshots=lag.snapshots,
                index_bytes=row.position.index_bytes if row.position else None,
            )

    def _tell_quarantines(self, tables: Sequence[TableRow]) -> None:
        """Those that are new, and at the start all that there are."""
        quarantined = {row.name: row for row in tables if row.quarantined}
        for table in sorted(quarantined.keys() - self._quarantined):
            self.metrics.count(names.QUARANTINED, table=table)
            _log_quarantine(quarantined[table])
        self._quarantined = frozenset(quarantined)


def _log_turn(run: RunResult) -> None:
    result = run.result
    done = {
        "table": result.table,
        "run": run.run_id,
        "outcome": result.outcome,
        "commits": len(result.slices),
        "events": sum(part.events for part in result.slices),
        "rows": sum(part.inserted + part.updated + part.deleted for part in result.slices),
        "rejected": sum(part.rejected for part in result.slices),
        "live_rows": result.live_rows,
        "seconds": result.seconds,
    }
    if result.error is None:
        log.info("turn ended", **done)
        return
    kind = result.error.kind
    # Whether it was a replay that failed, which quarantines nothing, a result does not tell.
    advice = (
        f"mend what the reason says; if the table is quarantined, then {_resume(result.table)}"
        if kind in NEEDS_PERSON
        else "none: it is tried again by itself"
    )
    log.warning("turn failed", **done, kind=kind, reason=result.error.message, advice=advice)


def _log_quarantine(row: TableRow) -> None:
    kind = row.error.kind if row.error else Kind.TRANSIENT
    advice = (
        f"when that is mended: {_resume(row.name)}"
        if kind in NEEDS_PERSON
        else f"it is tried again after merge_interval; at once: {_resume(row.name)}"
    )
    log.error(
        "table quarantined",
        table=row.name,
        failures=row.failures,
        kind=kind,
        reason=row.error.message if row.error else None,
        advice=advice,
    )


def _resume(table: str) -> str:
    return f"icemirror resume --table {table}"
