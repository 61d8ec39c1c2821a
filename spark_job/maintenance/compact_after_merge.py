"""Compacts a mirror after its last merge: small files of many merges become one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from icemirror.errors import IcemirrorError
from icemirror.telemetry.logs import get_log
from spark_job.iceberg.mirror import Mirror
from spark_job.maintenance.compact import Compacted
from spark_job.maintenance.move_rows import IndexMismatch
from spark_job.plan.table_plan import TablePlan
from spark_job.storage.translate_errors import translate_table_errors

log = get_log(__name__)


class CompactAfterMerge:
    """The tables that were merged into since their last compaction.

    Others are not checked: listing all files would be most of the work of a poll that finds nothing.
    """

    def __init__(self) -> None:
        self._merged: set[str] = set()

    def add_merged(self, table: str) -> None:
        """Add a table that a slice was merged into."""
        self._merged.add(table)

    def compact_if_due(
        self, table_plan: TablePlan, compact: Callable[[TablePlan], Compacted | None]
    ) -> Mirror | None:
        """Compact small data files after the last merge. Return the mirror after it.

        A failure is logged and changes nothing, unless it shows that the index is wrong.
        """
        mirror, name = table_plan.mirror, table_plan.settings.name
        if mirror is None or name not in self._merged or not table_plan.settings.compact:
            return mirror
        self._merged.remove(name)
        try:
            with translate_table_errors(name):
                compacted = compact(table_plan)
        except IndexMismatch:
            raise
        except IcemirrorError as error:
            log.warning("compaction skipped", reason=str(error))
            return mirror
        except Exception as error:
            log.failure("compaction skipped", error)
            return mirror
        return replace(mirror, root=compacted.root) if compacted else mirror
