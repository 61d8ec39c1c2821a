"""The last results of all tables as one small document, for a store that has no order of its own."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass

from icemirror.state.result_json import dump_result, load_result
from icemirror.state.store import ResultPage, RunResult

VERSION = 1


@dataclass(frozen=True, slots=True)
class Entry:
    """A result as it is stored, under a number that only rises."""

    number: int
    table: str
    run_id: str
    at: float
    body: str


def append(ring: tuple[Entry, ...], new: RunResult, kept: int, most_bytes: int) -> tuple[Entry, ...]:
    """The ring with one result more, at most `kept` of each table, and without the oldest that make it too long.

    A ring that was lost begins again behind all numbers that it had: they are no smaller than the clock's milliseconds.
    """
    number = max(ring[-1].number + 1 if ring else 0, int(new.at * 1000), 1)
    body = dump_result(new.result, most_bytes // 2)
    counts: Counter[str] = Counter()
    held: list[Entry] = []
    length = 0
    for entry in (Entry(number, new.result.table, new.run_id, new.at, body), *reversed(ring)):
        counts[entry.table] += 1
        length += len(entry.body)
        if length > most_bytes and held:
            break
        if counts[entry.table] <= kept:
            held.append(entry)
    return tuple(reversed(held))


def since(ring: tuple[Entry, ...], cursor: str) -> ResultPage:
    """The results behind the cursor that this release can read."""
    found = [entry for entry in ring if entry.number > int(cursor or 0)]
    results = (load_result(entry.run_id, entry.at, entry.body) for entry in found)
    return ResultPage(
        tuple(result for result in results if result is not None),
        str(found[-1].number) if found else cursor,
    )


def dump_ring(ring: tuple[Entry, ...]) -> str:
    """The ring as JSON."""
    entries = [[entry.number, entry.table, entry.run_id, entry.at, entry.body] for entry in ring]
    return json.dumps({"version": VERSION, "entries": entries}, separators=(",", ":"))


def is_newer(body: str) -> bool:
    """A later release wrote it, in another form: it is left as it is."""
    try:
        return int(json.loads(body)["version"]) > VERSION
    except (ValueError, TypeError, KeyError):
        return False


def load_ring(body: str) -> tuple[Entry, ...]:
    """A stored ring; an empty one in the place of one that cannot be read: it is history, no more."""
    try:
        document = json.loads(body)
        if document["version"] != VERSION:
            return ()
        entries = [
            Entry(int(number), str(table), str(run_id), float(at), str(result))
            for number, table, run_id, at, result in document["entries"]
        ]
    except (ValueError, TypeError, KeyError):
        return ()
    return tuple(entries)
