"""Reports runs: the results of jobs become the trigger's metrics and log lines."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from icemirror.errors import BLOCKING_KINDS, Kind
from icemirror.protocol.lag import lag_of, no_measurement
from icemirror.protocol.rows import Rows, TableRow
from icemirror.stores.store import RunResult, Store
from icemirror.telemetry import names
from icemirror.telemetry.logs import get_log
from icemirror.telemetry.metrics import Metrics
from icemirror.telemetry.result_metrics import count_result, set_table_gauges
from trigger.status.snapshot_lineage import SnapshotLineages

log = get_log(__name__)


@dataclass
class RunReporter:
    """Reports the results that workers recorded since the last report, and the state of each table.

    `known` returns the configured tables; rows of other tables are not reported.
    """

    store: Store
    metrics: Metrics
    cursor: str
    lineages: SnapshotLineages | None = None
    known: Callable[[], frozenset[str]] | None = None
    _reported: frozenset[str] = frozenset()
    _quarantined: frozenset[str] = frozenset()

    def report(self, rows: Rows) -> None:
        """Report once per round."""
        page = self.store.results_since(self.cursor)
        self.cursor = page.cursor
        for run in page.results:
            count_result(self.metrics, run.result)
            _log_turn(run)
        known = None if self.known is None else self.known()
        tables = [row for row in rows.tables.values() if known is None or row.name in known]
        self._report_quarantines(tables)
        self._set_gauges(tables)

    def _set_gauges(self, tables: Sequence[TableRow]) -> None:
        now, reported = time.time(), frozenset(row.name for row in tables)
        for removed in self._reported - reported:  # a gauge keeps its last value
            set_table_gauges(self.metrics, removed, lag_seconds=0.0, lag_snapshots=0)
        self._reported = reported
        for row in tables:
            lag = lag_of(row, now, self.lineages.backlog if self.lineages else no_measurement)
            set_table_gauges(
                self.metrics,
                row.name,
                lag_seconds=lag.seconds or 0.0,
                lag_snapshots=lag.snapshots,
                index_bytes=row.position.index_bytes if row.position else None,
            )

    def _report_quarantines(self, tables: Sequence[TableRow]) -> None:
        """Count and log new quarantines; the first report covers all."""
        quarantined = {row.name: row for row in tables if row.quarantined}
        for table in sorted(quarantined.keys() - self._quarantined):
            self.metrics.count(names.QUARANTINED, table=table)
            _log_quarantine(quarantined[table])
        self._quarantined = frozenset(quarantined)


def _log_turn(run: RunResult) -> None:
    result = run.result
    fields = {
        "table": result.table,
        "run": run.run_id,
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
