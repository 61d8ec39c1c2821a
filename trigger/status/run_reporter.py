"""Reports runs: the results of jobs become the trigger's metrics and log lines."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from icemirror.errors import BLOCKING_KINDS, Kind
from icemirror.protocol.lag import compute_lag, measure_nothing
from icemirror.protocol.rows import Rows, TableRow
from icemirror.stores.store import Store, TurnResult
from icemirror.telemetry import metric_names
from icemirror.telemetry.logs import get_log
from icemirror.telemetry.metrics import Metrics
from icemirror.telemetry.result_metrics import count_result, set_table_gauges
from trigger.status.local_backlog import LocalBacklogs

log = get_log(__name__)


@dataclass
class RunReporter:
    """Reports the results that workers recorded since the last report, and the state of each table.

    `configured_tables` returns the names of the configured tables; rows of other tables are not reported.
    """

    store: Store
    metrics: Metrics
    cursor: str
    local_backlogs: LocalBacklogs | None = None
    configured_tables: Callable[[], frozenset[str]] | None = None
    _reported_tables: frozenset[str] = frozenset()
    _quarantined_tables: frozenset[str] = frozenset()

    def report(self, rows: Rows) -> None:
        """Report once per round."""
        page = self.store.results_since(self.cursor)
        self.cursor = page.cursor
        for turn in page.results:
            count_result(self.metrics, turn.table_result)
            _log_turn(turn)
        table_names = rows.tables.keys() if self.configured_tables is None else self.configured_tables()
        table_rows = [row for row in rows.tables.values() if row.name in table_names]
        self._report_quarantines(table_rows)
        self._set_gauges(table_rows)

    def _set_gauges(self, table_rows: Sequence[TableRow]) -> None:
        now, table_names = time.time(), frozenset(row.name for row in table_rows)
        for removed_table in self._reported_tables - table_names:  # a gauge keeps its last value
            set_table_gauges(self.metrics, removed_table, lag_seconds=0.0, lag_snapshots=0)
        self._reported_tables = table_names
        for row in table_rows:
            lag = compute_lag(
                row, now, self.local_backlogs.measure if self.local_backlogs else measure_nothing
            )
            set_table_gauges(
                self.metrics,
                row.name,
                lag_seconds=lag.seconds or 0.0,
                lag_snapshots=lag.snapshots,
                index_bytes=row.position.index_bytes if row.position else None,
            )

    def _report_quarantines(self, table_rows: Sequence[TableRow]) -> None:
        """Count and log new quarantines; the first report covers all."""
        quarantined_rows = {row.name: row for row in table_rows if row.quarantined}
        for table in sorted(quarantined_rows.keys() - self._quarantined_tables):
            self.metrics.count(metric_names.QUARANTINED, table=table)
            _log_quarantine(quarantined_rows[table])
        self._quarantined_tables = frozenset(quarantined_rows)


def _log_turn(turn: TurnResult) -> None:
    result = turn.table_result
    fields = {
        "table": result.table,
        "run": turn.run_id,
        "outcome": result.outcome,
        "commits": len(result.slices),
        "events": sum(slice_.events for slice_ in result.slices),
        "rows": sum(slice_.inserted + slice_.updated + slice_.deleted for slice_ in result.slices),
        "rejected": sum(slice_.rejected for slice_ in result.slices),
        "live_rows": result.live_rows,
        "seconds": result.seconds,
    }
    if result.error is None:
        log.info("turn ended", **fields)
        return
    kind = result.error.kind
    # A failed replay does not quarantine the table; the result does not show which it was.
    advice = (
        f"fix the cause; if the table is quarantined, run: {_resume_command(result.table)}"
        if kind in BLOCKING_KINDS
        else "none: it is retried automatically"
    )
    log.warning("turn failed", **fields, kind=kind, reason=result.error.message, advice=advice)


def _log_quarantine(row: TableRow) -> None:
    kind = row.error.kind if row.error else Kind.TRANSIENT
    advice = (
        f"fix the cause, then run: {_resume_command(row.name)}"
        if kind in BLOCKING_KINDS
        else f"it is retried after merge_interval; to retry now, run: {_resume_command(row.name)}"
    )
    log.error(
        "table quarantined",
        table=row.name,
        failures=row.failures,
        kind=kind,
        reason=row.error.message if row.error else None,
        advice=advice,
    )


def _resume_command(table: str) -> str:
    return f"icemirror resume --table {table}"
