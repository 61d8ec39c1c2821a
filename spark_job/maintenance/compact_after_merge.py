"""Compacts a mirror after its last merge: small files of many merges become one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from icemirror.errors import IcemirrorError
from icemirror.telemetry.logs import get_log
from spark_job.iceberg.mirror import Mirror
from spark_job.maintenance.compact import Compaction
from spark_job.maintenance.move_rows import IndexMismatch
from spark_job.plan.table_plan import TablePlan
from spark_job.storage.translate_errors import translate_table_errors

log = get_log(__name__)


class CompactionQueue:
    """The tables that were merged into since their last compaction; only these are checked.

    Listing the files of all tables would be most of the work of a poll that finds nothing.
    """

    def __init__(self) -> None:
        self._tables: set[str] = set()

    def add_merged(self, table: str) -> None:
        """Add a table that a slice was merged into."""
        self._tables.add(table)

    def compact_if_due(
        self, table_plan: TablePlan, compact: Callable[[TablePlan], Compaction | None]
    ) -> Mirror | None:
        """Compact the table if it is in the queue. Return the mirror after that.

        A failure is logged and changes nothing, unless it shows that the index is wrong.
        """
        mirror, name = table_plan.mirror, table_plan.table_settings.name
        if mirror is None or name not in self._tables or not table_plan.table_settings.compact:
            return mirror
        self._tables.remove(name)
        try:
            with translate_table_errors(name):
                result = compact(table_plan)
        except IndexMismatch:
            raise
        except IcemirrorError as error:
            log.warning("compaction skipped", reason=str(error))
            return mirror
        except Exception as error:
            log.failure("compaction skipped", error)
            return mirror
        return replace(mirror, root=result.root) if result else mirror
