"""Where index, rows and changelog contradict each other about one key, by the names of `verify`. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from spark_job.changelog.shape import Operation
from spark_job.explain.mirrored_row import Check, Entry, Place
from spark_job.explain.report import Difference
from spark_job.verify.findings import Kind

_WHAT_CHECK = {
    Check.NO_FILE: "that data file is not in the table",
    Check.DELETED: "that row is deleted",
    Check.OTHER_KEY: "that row has another key",
}


@dataclass(frozen=True)
class Scene:
    """All that is known: `rows` of the head with the key, what the index says, and what is at its place.

    `last`: what the last merged event does; None if there is none, or it must not be relied on. `differing`: the
    columns in which the row is not the one of that event. `foreign`: others have written since the index was made.
    `flagged`: the row is flagged as deleted.
    """

    rows: Sequence[Place]
    entry: Entry | None
    check: Check | None
    last: Operation | None
    differing: Sequence[str]
    foreign: bool
    flagged: bool = False


def contradictions(scene: Scene) -> Iterator[Difference]:
    """Every difference that `verify --deep` would count for this key."""
    rows = scene.rows
    for extra in rows[1:]:
        yield _found(Kind.DOUBLED_KEY, f"the mirror has a second row of the key, {_place(extra)}")
    if scene.last is Operation.UPSERT and not rows:
        by_other = scene.entry is not None and (scene.entry.place is None) and scene.entry.order is not None
        why = ": another writer deleted it" if by_other or scene.foreign else ""
        yield _found(Kind.MISSING_ROW, f"by the changelog there must be a row, but there is none{why}")
    if scene.last is Operation.UPSERT and scene.flagged:
        yield _found(
            Kind.DIFFERENT_ROW, "the row is flagged as deleted, but its last event did not delete it"
        )
    if scene.last is Operation.DELETE and rows and not scene.flagged:
        yield _found(Kind.DELETED_ROW, "the changelog deleted the row, but the mirror has one")
    if scene.differing:
        yield _found(
            Kind.DIFFERENT_ROW, f"the row is not the one of its last event, in {', '.join(scene.differing)}"
        )
    yield from _of_index(scene)


def _of_index(scene: Scene) -> Iterator[Difference]:
    """Others' writes since the index was made are no fault of it."""
    if scene.entry is None or scene.foreign:
        return
    place = scene.entry.place
    if place is None and scene.rows:
        yield _found(Kind.NOT_INDEXED, f"the index does not know of {_place(scene.rows[0])}")
    if place is None or scene.check is None or scene.check is Check.THERE:
        return
    what = f"the index says {_place(place)}, but {_WHAT_CHECK[scene.check]}"
    if scene.rows:
        yield _found(Kind.WRONG_PLACE, f"{what}; the row is {_place(scene.rows[0])}")
    else:
        yield _found(Kind.NO_SUCH_ROW, what)


def _place(place: Place) -> str:
    return f"row {place.position} of {place.path}"


def _found(kind: Kind, what: str) -> Difference:
    return Difference(kind=kind, what=what)
