"""What a verification found: kinds of differences, their counts, and a few locations. Keys only on request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

from icemirror.tables.cursor import Cursor
from spark_job.commands.report_model import ReportModel

MAX_LOCATIONS = 5


class FindingKind(StrEnum):
    """A kind of difference."""

    MISSING_ROW = "missing-row"
    DELETED_ROW = "deleted-row"
    SOFT_DELETE_MISSING = "not-kept"
    DIFFERENT_ROW = "different-row"
    DUPLICATE_KEY = "doubled-key"
    FOREIGN_ROW = "foreign-row"
    SURPLUS_ROW = "surplus-row"
    NOT_INDEXED = "not-indexed"
    WRONG_LOCATION = "wrong-place"
    NO_SUCH_ROW = "no-such-row"
    INDEXED_TWICE = "indexed-twice"
    COUNT = "count"
    CURSOR = "cursor"
    ROOT = "root"
    UNREADABLE = "unreadable"


MEANING: Mapping[FindingKind, str] = {
    FindingKind.MISSING_ROW: "the changelog has a row that the mirror does not have",
    FindingKind.DELETED_ROW: "the mirror has a row that the changelog deleted",
    FindingKind.SOFT_DELETE_MISSING: (
        "the mirror lacks a row that the changelog deleted, although soft deletes keep rows"
    ),
    FindingKind.DIFFERENT_ROW: "the mirror's row differs from the latest event in the changelog",
    FindingKind.DUPLICATE_KEY: "the mirror has a second row with the same key",
    FindingKind.FOREIGN_ROW: "the mirror has a row whose key is not in the changelog",
    FindingKind.SURPLUS_ROW: "the mirror, which has no key, contains a row more often than the changelog",
    FindingKind.NOT_INDEXED: "the mirror has a row whose key is not in the index",
    FindingKind.WRONG_LOCATION: "the index has the key, but points at another row",
    FindingKind.NO_SUCH_ROW: "the index points at a row that does not exist or has another key",
    FindingKind.INDEXED_TWICE: "a run of the index contains a key twice",
    FindingKind.COUNT: "the number of live rows in a data file differs from the index",
    FindingKind.CURSOR: "the cursor is not in the changelog's history",
    FindingKind.ROOT: "the index root is missing, damaged, or belongs to another snapshot",
    FindingKind.UNREADABLE: "a file is missing or damaged",
}


class VerifyFinding(ReportModel):
    """One kind of difference. `keys`: one for each place, only if requested."""

    kind: FindingKind
    count: int
    places: tuple[str, ...] = ()
    keys: tuple[str, ...] | None = None


class CheckedCounts(ReportModel):
    """How much was compared."""

    data_files: int = 0
    segments: int = 0
    rows: int = 0
    entries: int = 0
    events: int = 0


class VerifyReport(ReportModel):
    """The result of a verification. `notes`: what could not be compared, and why."""

    table: str
    mode: str
    equal: bool
    snapshot_id: int | None
    cursor: Cursor | None
    live_rows: int | None
    checked: CheckedCounts
    findings: tuple[VerifyFinding, ...]
    notes: tuple[str, ...]
    seconds: float


def as_findings(kind: FindingKind, descriptions: Iterable[str]) -> list[VerifyFinding]:
    """Return one finding with these descriptions, or no finding if there are none."""
    places = list(descriptions)
    return (
        [VerifyFinding(kind=kind, count=len(places), places=tuple(places[:MAX_LOCATIONS]))] if places else []
    )
