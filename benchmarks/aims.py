"""The promised limits, and whether they were reached. Aims without figures are skipped."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from benchmarks.result import Fleet, Latency, Lookups, Reading, Run, Storages
from benchmarks.summary import median_around, percentile, repeated, warm_seconds
from benchmarks.systems.catalogue import OURS, PEER, SYSTEMS

_HASHED, _ORDERED = "hashed", "ordered-64"
_LOOKUP_SECONDS = 0.1
_EVENTS_PER_SECOND = 250_000


@dataclass(frozen=True)
class Aim:
    """A promised limit and the measured value. `at_most`: the limit is an upper bound, else a lower bound."""

    text: str
    measured: float
    limit: float
    unit: str
    at_most: bool = True

    @property
    def met(self) -> bool:
        """Return whether the aim was reached."""
        return self.measured <= self.limit if self.at_most else self.measured >= self.limit


def judge_aims(run: Run) -> list[Aim]:
    """Return the aims for which the run has figures."""
    return [
        *_merge_aims(run),
        *_repeated_merge_aims(run),
        *_latency_aims(run),
        *_fleet_aims(run),
        *_reading_aims(run),
        *_lookup_aims(run),
        *_storage_aims(run),
    ]


def _merge_aims(run: Run) -> Iterator[Aim]:
    yield from _growth_aim(run, "small", 1.5)
    yield from _growth_aim(run, "hashed", 2.0)
    yield from _speed_up_aim(run, "small", "small-10m", PEER, 6.0)
    yield from _speed_up_aim(run, "small", "small-10m", "paimon", 1.0)
    yield from _speed_up_aim(run, "large", "large", PEER, 2.5)
    yield from _speed_up_aim(run, "wide", "wide", PEER, 4.0)
    batch = run.workloads("large").get("large", {}).get(OURS)
    if batch is not None:
        rate = batch.events[0] / warm_seconds(batch).middle
        yield Aim(f"{batch.title}: events a second", rate, _EVENTS_PER_SECOND, "/s", at_most=False)


def _growth_aim(run: Run, part: str, limit: float) -> Iterator[Aim]:
    """Compare a batch into the largest table with one into the smallest."""
    works = run.workloads(part)
    smallest, largest = (works.get(f"{part}-{size}", {}).get(OURS) for size in ("1m", "50m"))
    if smallest is not None and largest is not None:
        text = f"{largest.title}: the time of {smallest.rows:,} rows"
        yield Aim(text, warm_seconds(largest).middle / warm_seconds(smallest).middle, limit, "×")


def _speed_up_aim(run: Run, part: str, workload: str, peer: str, limit: float) -> Iterator[Aim]:
    """Compare the speed with another system."""
    systems = run.workloads(part).get(workload, {})
    if {OURS, peer} <= systems.keys():
        speed_up = warm_seconds(systems[peer]).middle / warm_seconds(systems[OURS]).middle
        text = f"{systems[OURS].title}: speed-up over {SYSTEMS[peer].title}"
        yield Aim(text, speed_up, limit, "×", at_most=False)


def _repeated_merge_aims(run: Run) -> Iterator[Aim]:
    many = repeated(run)
    if many is not None and len(many.batches) > 10:
        last = len(many.batches)
        yield Aim(
            f"merge {last:,} compared with merge 10",
            median_around(many, last) / median_around(many, 10),
            1.5,
            "×",
        )


def _latency_aims(run: Run) -> Iterator[Aim]:
    latency = run.outcome("latency", OURS)
    if isinstance(latency, Latency):
        for latency_run in latency.runs:
            seconds = [commit.visible for commit in latency_run.commits]
            yield Aim(f"from commit to row, {latency_run.title}: median", median(seconds), 3.0, "s")
            yield Aim(f"from commit to row, {latency_run.title}: p95", percentile(seconds, 95), 5.0, "s")


def _fleet_aims(run: Run) -> Iterator[Aim]:
    fleet = run.outcome("fleet", OURS)
    if isinstance(fleet, Fleet):
        text = f"{fleet.tables} tables, one busy"
        yield Aim(f"{text}: p95 of the quiet ones", percentile(fleet.quiet, 95), 15.0, "s")
        yield Aim(f"{text}: tables that starved", fleet.starved, 0.0, "")
        yield Aim(f"{text}: jobs at the same time", fleet.most_jobs, fleet.allowed_jobs, "")
        yield Aim(f"{text}: jobs launched for a burst", fleet.launches / fleet.bursts, 1.0, "")
        if fleet.sparks is not None:
            yield Aim(f"{text}: Spark sessions started per burst", fleet.sparks / fleet.bursts, 1.0, "")


def _reading_aims(run: Run) -> Iterator[Aim]:
    reading = run.outcome("reading", OURS)
    if isinstance(reading, Reading):
        for reader in reading.readers:
            text = f"{reader.name} after {reading.merges} small merges, compared with a compacted copy"
            yield Aim(text, median(reader.merged) / median(reader.compacted), 2.0, "×")


def _lookup_aims(run: Run) -> Iterator[Aim]:
    lookups = run.outcome("lookup", OURS)
    if not isinstance(lookups, Lookups):
        return
    for codec in (_HASHED, _ORDERED):
        found = [lookup for lookup in lookups.lookups if lookup.codec == codec]
        smallest, largest = found[0], found[-1]
        text = f"{largest.keys:,} keys in {largest.entries:,} {codec} entries"
        yield Aim(text, median(largest.seconds), _LOOKUP_SECONDS, "s")
        grown = median(largest.seconds) / median(smallest.seconds)
        yield Aim(f"{text}, compared with {smallest.entries:,}", grown, 2.0, "×")


def _storage_aims(run: Run) -> Iterator[Aim]:
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
    for name, row_size in (("integer-100", "100 B"), ("integer-1000", "1 KB")):
        overhead = tables[name].copied.disk_bytes / tables[name].plain_bytes - 1
        yield Aim(f"storage over plain Parquet, integer keys, rows of {row_size}", 100 * overhead, 5.0, "%")
