"""What a verification found: kinds of differences, how many, and a few places. Never values, unless asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

from pydantic import BaseModel, ConfigDict

from icemirror.cursor import Cursor

MOST_PLACES = 5


class Kind(StrEnum):
    """How something is not as it should be."""

    MISSING_ROW = "missing-row"
    DELETED_ROW = "deleted-row"
    NOT_KEPT = "not-kept"
    DIFFERENT_ROW = "different-row"
    DOUBLED_KEY = "doubled-key"
    FOREIGN_ROW = "foreign-row"
    SURPLUS_ROW = "surplus-row"
    NOT_INDEXED = "not-indexed"
    WRONG_PLACE = "wrong-place"
    NO_SUCH_ROW = "no-such-row"
    INDEXED_TWICE = "indexed-twice"
    COUNT = "count"
    CURSOR = "cursor"
    ROOT = "root"
    UNREADABLE = "unreadable"


MEANING: Mapping[Kind, str] = {
    Kind.MISSING_ROW: "the changelog has a row that the mirror does not have",
    Kind.DELETED_ROW: "the mirror has a row that the changelog deleted",
    Kind.NOT_KEPT: "the mirror lacks a row that the changelog deleted, although deletes keep their rows",
    Kind.DIFFERENT_ROW: "the mirror's row is not the one of the changelog's latest event",
    Kind.DOUBLED_KEY: "the mirror has a second row of a key",
    Kind.FOREIGN_ROW: "the mirror has a row of a key that the changelog never told of",
    Kind.SURPLUS_ROW: "the mirror, which has no key, has a row more often than the changelog",
    Kind.NOT_INDEXED: "a row of the mirror whose key the index does not know",
    Kind.WRONG_PLACE: "the index knows the key, but says that its row is elsewhere",
    Kind.NO_SUCH_ROW: "the index points at a row that is not there, or has another key",
    Kind.INDEXED_TWICE: "a run of the index has a key twice",
    Kind.COUNT: "a data file has not as many live rows as the index counts",
    Kind.CURSOR: "the cursor is not a place in the changelog's history",
    Kind.ROOT: "the index's root is gone, damaged, or not the snapshot's",
    Kind.UNREADABLE: "a file is gone or damaged",
}


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Finding(_Frozen):
    """One kind of difference. `keys` are there only if they were asked for, one for each place."""

    kind: Kind
    count: int
    places: tuple[str, ...] = ()
    keys: tuple[str, ...] | None = None


class Checked(_Frozen):
    """How much was looked at."""

    data_files: int = 0
    segments: int = 0
    rows: int = 0
    entries: int = 0
    events: int = 0


class VerifyReport(_Frozen):
    """What a verification came to. `notes`: what could not be compared, and why."""

    table: str
    mode: str
    equal: bool
    snapshot_id: int | None
    cursor: Cursor | None
    live_rows: int | None
    checked: Checked
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]
    seconds: float


def finding(kind: Kind, places: Iterable[str]) -> list[Finding]:
    """One finding for all of these places, or none for none."""
    found = list(places)
    return [Finding(kind=kind, count=len(found), places=tuple(found[:MOST_PLACES]))] if found else []
