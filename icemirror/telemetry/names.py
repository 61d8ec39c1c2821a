"""Every metric of the product: name, what it counts or measures, labels. Part of the contract."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Instrument(StrEnum):
    """What kind of number it is, as Prometheus calls it."""

    COUNTER = "counter"
    HISTOGRAM = "histogram"
    GAUGE = "gauge"


class Unit(StrEnum):
    """What one of it is. The name of a metric ends in its unit where it has one."""

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
        """The name that Prometheus shows."""
        return f"{self.name}_total" if self.instrument is Instrument.COUNTER else self.name


def _counter(name: str, description: str, *labels: str) -> Metric:
    return Metric(name, Instrument.COUNTER, description, labels=labels)


def _seconds(name: str, description: str, *labels: str) -> Metric:
    return Metric(name, Instrument.HISTOGRAM, description, Unit.SECONDS, labels)


CYCLE_COMPLETED = _counter("merger_cycle_completed", "Turns that a job took on a table and ended")
CYCLE_DURATION = _seconds("merger_cycle_duration_seconds", "Duration of a turn, without the start of Spark")
TABLE_SUCCESS = _counter("merger_table_success", "Turns that ended well", "table")
TABLE_FAILURE = _counter("merger_table_failure", "Turns that failed", "table")
TABLE_DURATION = _seconds("merger_table_duration_seconds", "Duration of a turn on this table", "table")
ROWS_SCANNED = _counter("merger_rows_scanned", "Events read from changelogs", "table")
ROWS_DEDUPLICATED = _counter("merger_rows_deduplicated", "Rows applied after deduplication", "table")
ROWS_REJECTED = _counter("merger_rows_rejected", "Rows put aside because they cannot be merged", "table")
MERGE_DURATION = _seconds(
    "merger_merge_duration_seconds", "Duration of a slice, from plan to commit", "table"
)
CHANGELOG_FILES = _counter("merger_changelog_files", "Changelog files merged", "table")
FILES_CREATED = _counter("merger_files_created", "Data and delete files written and committed", "table")
COMMITS = _counter("merger_commits", "Commits tried, by outcome", "table", "outcome")
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
    "How long the oldest changelog commit that is not merged has waited",
    Unit.SECONDS,
)
LAG_SNAPSHOTS = Metric("merger_lag_snapshots", Instrument.GAUGE, "Changelog snapshots that are not merged")
INDEX_BYTES = Metric("merger_index_bytes", Instrument.GAUGE, "Size of the key index", Unit.BYTES)
RESIDENT_BYTES = Metric(
    "merger_resident_bytes", Instrument.GAUGE, "Memory that this process holds", Unit.BYTES, labels=()
)
NOTICES = _counter("trigger_notices", "Hints that a changelog may have changed", "table")
COALESCED = _counter("trigger_coalesced", "Hints that joined work which was waiting already", "table")
LAUNCHES = _counter("trigger_launches", "Jobs launched (one may serve many tables)")
QUARANTINED = _counter("trigger_quarantined", "Times that a table was set aside for a person", "table")
DEAD_LETTERS = _counter("trigger_dead_letters", "Events refused for good")
REFUSED = _counter(
    "trigger_refused",
    "Hints and events that were not used, by reason; somebody else's tables included",
    "reason",
)

ALL: tuple[Metric, ...] = tuple(value for value in dict(globals()).values() if isinstance(value, Metric))
