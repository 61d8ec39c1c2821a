"""The last results of all tables as one small document, for a store without ordered keys."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass

from icemirror.stores.store import ResultPage, TurnResult
from icemirror.stores.stored_json import dump_result, load_result

VERSION = 1


@dataclass(frozen=True, slots=True)
class StoredResult:
    """A result as it is stored, under an increasing number."""

    number: int
    table: str
    run_id: str
    recorded_at: float
    body: str


def append_result(
    ring: tuple[StoredResult, ...], result: TurnResult, max_per_table: int, max_bytes: int
) -> tuple[StoredResult, ...]:
    """Return the ring with one more result: at most `max_per_table` per table, the oldest dropped if it is too long.

    Numbers are at least the clock's milliseconds, so that a lost ring starts again above all its earlier numbers.
    """
    number = max(ring[-1].number + 1 if ring else 0, int(result.recorded_at * 1000), 1)
    body = dump_result(result.table_result, max_bytes // 2)
    new_entry = StoredResult(number, result.table_result.table, result.run_id, result.recorded_at, body)
    counts: Counter[str] = Counter()
    newest_first: list[StoredResult] = []
    length = 0
    for entry in (new_entry, *reversed(ring)):
        counts[entry.table] += 1
        length += len(entry.body)
        if length > max_bytes and newest_first:
            break
        if counts[entry.table] <= max_per_table:
            newest_first.append(entry)
    return tuple(reversed(newest_first))


def results_after(ring: tuple[StoredResult, ...], cursor: str) -> ResultPage:
    """Return the results after the cursor that this release can read."""
    entries = [entry for entry in ring if entry.number > int(cursor or 0)]
    results = (load_result(entry.run_id, entry.recorded_at, entry.body) for entry in entries)
    return ResultPage(
        tuple(result for result in results if result is not None),
        str(entries[-1].number) if entries else cursor,
    )


def dump_ring(ring: tuple[StoredResult, ...]) -> str:
    """Return the ring as JSON."""
    entries = [[entry.number, entry.table, entry.run_id, entry.recorded_at, entry.body] for entry in ring]
    return json.dumps({"version": VERSION, "entries": entries}, separators=(",", ":"))


def is_newer_version(body: str) -> bool:
    """Return whether a later release wrote the ring; it is then not changed."""
    try:
        return int(json.loads(body)["version"]) > VERSION
    except (ValueError, TypeError, KeyError):
        return False


def load_ring(body: str) -> tuple[StoredResult, ...]:
    """Return a stored ring; an empty one if it is unreadable, because it holds only history."""
    try:
        document = json.loads(body)
        if document["version"] != VERSION:
            return ()
        entries = [
            StoredResult(int(number), str(table), str(run_id), float(recorded_at), str(result))
            for number, table, run_id, recorded_at, result in document["entries"]
        ]
    except (ValueError, TypeError, KeyError):
        return ()
    return tuple(entries)
