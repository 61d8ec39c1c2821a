"""What is promised, and whether it was reached. An aim whose figures are missing is not judged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from benchmarks.result import Lookups, Reading, Run, Storages
from benchmarks.summary import around, ratio, repeated, seconds_of
from benchmarks.systems.catalogue import OURS, PEER

_HASHED, _ORDERED = "hashed", "ordered-64"
_LOOKUP_SECONDS = 0.1
_EVENTS_A_SECOND = 250_000


@dataclass(frozen=True)
class Aim:
    """Something that was promised, and what was measured. `most`: the limit must not be passed, else it must be."""

    text: str
    measured: float
    limit: float
    unit: str
    most: bool = True

    @property
    def met(self) -> bool:
        """Was it reached?"""
        return self.measured <= self.limit if self.most else self.measured >= self.limit


def judge_aims(run: Run) -> list[Aim]:
    """The aims that the run can tell something about."""
    return [*_merging(run), *_many_merges(run), *_reading(run), *_looking_up(run), *_storing(run)]


def _merging(run: Run) -> Iterator[Aim]:
    def seconds(part: str, workload: str, system: str = OURS) -> float | None:
        return seconds_of(run, part, workload, system)

    grown = ratio(seconds("small", "small-50m"), seconds("small", "small-1m"))
    hashed = ratio(seconds("hashed", "hashed-50m"), seconds("hashed", "hashed-1m"))
    small = ratio(seconds("small", "small-10m", PEER), seconds("small", "small-10m"))
    paimon = ratio(seconds("small", "small-10m"), seconds("small", "small-10m", "paimon"))
    large = ratio(seconds("large", "large", PEER), seconds("large", "large"))
    wide = ratio(seconds("wide", "wide", PEER), seconds("wide", "wide"))
    found = (
        (grown, "a small batch into 50 M rows, beside 1 M", 1.5, True),
        (hashed, "the same with text keys", 2.0, True),
        (small, "as fast as MERGE v3, small batches into 10 M rows", 6.0, False),
        (paimon, "the time of Paimon's blind upsert, small batches into 10 M rows", 1.0, True),
        (large, "as fast as MERGE v3, 1 M events into 10 M rows", 2.5, False),
        (wide, "as fast as MERGE v3, wide rows in partitions", 4.0, False),
    )
    for measured, text, limit, most in found:
        if measured is not None:
            yield Aim(text, measured, limit, "×", most)
    batch = run.workloads("large").get("large", {}).get(OURS)
    took = seconds("large", "large")
    if batch is not None and took:
        yield Aim("events a second, 1 M at once", batch.events[0] / took, _EVENTS_A_SECOND, "/s", most=False)


def _many_merges(run: Run) -> Iterator[Aim]:
    many = repeated(run)
    if many is not None and len(many.batches) > 10:
        last = len(many.batches)
        yield Aim(f"merge {last:,} beside merge 10", around(many, last) / around(many, 10), 1.5, "×")


def _reading(run: Run) -> Iterator[Aim]:
    reading = run.outcome("reading", OURS)
    if isinstance(reading, Reading):
        for reader in reading.readers:
            text = f"{reader.name} after {reading.merges} small merges, beside a compacted copy"
            yield Aim(text, median(reader.merged) / median(reader.compacted), 2.0, "×")


def _looking_up(run: Run) -> Iterator[Aim]:
    lookups = run.outcome("lookup", OURS)
    if not isinstance(lookups, Lookups):
        return
    for codec in (_HASHED, _ORDERED):
        found = [one for one in lookups.lookups if one.codec == codec]
        least, most = found[0], found[-1]
        text = f"{most.keys:,} keys in {most.entries:,} {codec} entries"
        yield Aim(text, median(most.seconds), _LOOKUP_SECONDS, "s")
        grown = median(most.seconds) / median(least.seconds)
        yield Aim(f"{text}, beside {least.entries:,}", grown, 2.0, "×")


def _storing(run: Run) -> Iterator[Aim]:
    storages = run.outcome("storage", OURS)
    if not isinstance(storages, Storages):
        return
    tables = {table.name: table for table in storages.tables}
    copied, streamed, uuid = tables["narrow"], tables["narrow-streamed"], tables["uuid"]
    yield Aim(
        "index, ids in sequence, after the initial copy",
        copied.copied.index_bytes / copied.rows,
        1.0,
        "B/row",
    )
    yield Aim(
        "index, a sequence for each row and 1 % random updates",
        streamed.updated.index_bytes / streamed.rows,
        4.0,
        "B/row",
    )
    yield Aim("index, hashed keys", uuid.copied.index_bytes / uuid.rows, 24.0, "B/row")
    for name, words in (("integer-100", "100 B"), ("integer-1000", "1 KB")):
        over = tables[name].copied.disk_bytes / tables[name].plain_bytes - 1
        yield Aim(f"storage over plain Parquet, integer keys, rows of {words}", 100 * over, 5.0, "%")
