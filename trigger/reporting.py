"""What the trigger reports for the jobs that it launched: their results become its metrics."""

from __future__ import annotations

import time
from dataclasses import dataclass

from icemirror.state.lag import lag_of, no_other
from icemirror.state.rows import Rows
from icemirror.state.store import Store
from icemirror.telemetry import names
from icemirror.telemetry.fold import fold_result, fold_standing
from icemirror.telemetry.metrics import Metrics
from trigger.lineages import Lineages


@dataclass
class Reporting:
    """Folds the results that workers recorded since the last time, and where each table stands."""

    store: Store
    metrics: Metrics
    cursor: str
    lineages: Lineages | None = None
    _quarantined: frozenset[str] = frozenset()

    def report(self, rows: Rows) -> None:
        """Once a round."""
        page = self.store.results_since(self.cursor)
        self.cursor = page.cursor
        for run in page.results:
            fold_result(self.metrics, run.result)
        self._count_quarantines(rows)
        now = time.time()
        for row in rows.tables.values():
            lag = lag_of(row, now, self.lineages.left if self.lineages else no_other)
            fold_standing(
                self.metrics,
                row.name,
                lag_seconds=lag.seconds or 0.0,
                lag_snapshots=lag.snapshots,
                index_bytes=row.position.index_bytes if row.position else None,
            )

    def _count_quarantines(self, rows: Rows) -> None:
        quarantined = frozenset(row.name for row in rows.tables.values() if row.quarantined)
        for table in quarantined - self._quarantined:
            self.metrics.count(names.QUARANTINED, table=table)
        self._quarantined = quarantined
