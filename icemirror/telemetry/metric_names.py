"""All metrics: name, instrument, description, labels. Names and labels are a contract with users."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Instrument(StrEnum):
    """The kind of a metric, in Prometheus' words."""

    COUNTER = "counter"
    HISTOGRAM = "histogram"
    GAUGE = "gauge"


class Unit(StrEnum):
    """The unit of a metric; its name ends in the unit, if there is one."""

    NONE = ""
    SECONDS = "s"
    BYTES = "By"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric."""

    name: str
    instrument: Instrument
    description: str
    unit: Unit = Unit.NONE
    labels: tuple[str, ...] = ("table",)

    @property
    def exposed_name(self) -> str:
        """The name in Prometheus."""
        return f"{self.name}_total" if self.instrument is Instrument.COUNTER else self.name


def _counter(name: str, description: str, *labels: str) -> Metric:
    return Metric(name, Instrument.COUNTER, description, labels=labels)


def _seconds(name: str, description: str, *labels: str) -> Metric:
    return Metric(name, Instrument.HISTOGRAM, description, Unit.SECONDS, labels)


CYCLE_COMPLETED = _counter("merger_cycle_completed", "Finished turns of jobs on tables")
CYCLE_DURATION = _seconds("merger_cycle_duration_seconds", "Duration of a turn, without the start of Spark")
TABLE_SUCCESS = _counter("merger_table_success", "Successful turns", "table")
TABLE_FAILURE = _counter("merger_table_failure", "Failed turns", "table")
TABLE_DURATION = _seconds("merger_table_duration_seconds", "Duration of a turn on this table", "table")
ROWS_SCANNED = _counter("merger_rows_scanned", "Events read from changelogs", "table")
ROWS_DEDUPLICATED = _counter("merger_rows_deduplicated", "Rows applied after deduplication", "table")
ROWS_REJECTED = _counter("merger_rows_rejected", "Rows written to the rejects table", "table")
MERGE_DURATION = _seconds(
    "merger_merge_duration_seconds", "Duration of a slice, from plan to commit", "table"
)
CHANGELOG_FILES = _counter("merger_changelog_files", "Changelog files merged", "table")
FILES_CREATED = _counter("merger_files_created", "Data and delete files written and committed", "table")
COMMITS = _counter("merger_commits", "Attempted commits, by outcome", "table", "outcome")
COMMIT_DURATION = _seconds("merger_commit_duration_seconds", "Duration of a commit", "table")
FILE_SIZE = Metric(
    "merger_file_size_bytes",
    Instrument.HISTOGRAM,
    "Size of a committed data or delete file (the mean of its slice)",
    Unit.BYTES,
)
SLICE_EVENTS = Metric("merger_slice_events", Instrument.HISTOGRAM, "Events in a slice")
LAG_SECONDS = Metric(
    "merger_lag_seconds",
    Instrument.GAUGE,
    "Age of the oldest unmerged changelog commit",
    Unit.SECONDS,
)
LAG_SNAPSHOTS = Metric("merger_lag_snapshots", Instrument.GAUGE, "Unmerged changelog snapshots")
INDEX_BYTES = Metric("merger_index_bytes", Instrument.GAUGE, "Size of the key index", Unit.BYTES)
RESIDENT_BYTES = Metric(
    "merger_resident_bytes", Instrument.GAUGE, "Resident memory of this process", Unit.BYTES, labels=()
)
NOTICES = _counter("trigger_notices", "Hints that a changelog may have changed", "table")
COALESCED = _counter("trigger_coalesced", "Hints for tables that were already waiting", "table")
LAUNCHES = _counter("trigger_launches", "Jobs launched (one may serve many tables)")
QUARANTINED = _counter("trigger_quarantined", "Times that a table was quarantined", "table")
DEAD_LETTERS = _counter("trigger_dead_letters", "Hints stored as dead letters")
REFUSED = _counter(
    "trigger_refused",
    "Refused hints, by reason, including those of other tables",
    "reason",
)

ALL: tuple[Metric, ...] = tuple(value for value in dict(globals()).values() if isinstance(value, Metric))
