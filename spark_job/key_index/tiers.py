"""Which runs of the index to merge, and how much of it now.

A *run* is a set of segments whose keys do not overlap: what one commit wrote, or what several runs were merged
into. A lookup asks one segment of each run at most, so there must be few runs; a merge must not stop to rewrite
the index, so each entry may be rewritten only now and then, and only so many of them in one commit.

Runs fall into tiers by size. Where a tier has collected FAN_IN neighbours in age, they become one run, a range of
keys in each commit: the part that is done is taken off the old runs by raising their first key. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

import numpy as np
from pydantic import BaseModel, ConfigDict

from spark_job.distinct import distinct
from spark_job.key_index.keys import U64, Keys, concat_keys
from spark_job.key_index.segment import SegmentInfo

FAN_IN = 4
_SMALLEST_TIER = 4096
_LEAST_WORK = 1 << 17
_WORK_FOR_ENTRY = 8
PIECE_ENTRIES = 1 << 20


@dataclass(frozen=True, slots=True)
class Run:
    """Segments of one number, whose keys do not overlap."""

    number: int
    segments: tuple[SegmentInfo, ...]

    @property
    def entries(self) -> int:
        """How many there are, those of trimmed ranges included."""
        return sum(segment.entries for segment in self.segments)


class Group(BaseModel):
    """Runs that are being merged into one: the number of that one, and theirs, newest first."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    target: int
    inputs: tuple[int, ...]


def runs_of(segments: Sequence[SegmentInfo]) -> list[Run]:
    """The runs of an index, newest first."""
    return [Run(number, tuple(same)) for number, same in groupby(segments, key=lambda one: one.run)]


def work_allowed(added: int) -> int:
    """How many entries a commit that adds so many may rewrite: enough for every tier to keep up."""
    return max(_LEAST_WORK, _WORK_FOR_ENTRY * added)


def choose_groups(runs: Sequence[Run], under_way: Sequence[Group], next_run: int) -> list[Group]:
    """The groups to work on, those with the smallest runs first: they are what most lookups pay for."""
    sizes = {run.number: run.entries for run in runs}
    groups = [group for group in under_way if any(number in sizes for number in group.inputs)]
    busy = {number for group in groups for number in (group.target, *group.inputs)}
    for frozen, neighbours in groupby(runs, key=lambda run: run.number in busy):
        for due in _due(list(neighbours)) if not frozen else ():
            groups.append(Group(target=next_run, inputs=due))
            next_run += 1
    return sorted(groups, key=lambda group: sum(sizes.get(number, 0) for number in group.inputs))


def _due(runs: list[Run]) -> list[tuple[int, ...]]:
    """Full tiers among neighbours. A small run between large ones counts with them: age order must hold."""
    tiers = np.maximum.accumulate([tier_of(run.entries) for run in runs])
    groups: list[tuple[int, ...]] = []
    taken = 0
    for tier in distinct(tiers):
        places = [place for place in np.flatnonzero(tiers == tier).tolist() if place >= taken]
        if len(places) < FAN_IN:
            continue
        end = places[-1] + 1
        total = sum(runs[place].entries for place in places)
        while end < len(runs) and runs[end].entries <= total:
            total += runs[end].entries
            end += 1
        groups.append(tuple(run.number for run in runs[places[0] : end]))
        taken = end
    return groups


def tier_of(entries: int) -> int:
    """0 up to the smallest size, then one more for each FAN_IN times as many."""
    tier = 0
    while entries > _SMALLEST_TIER:
        entries //= FAN_IN
        tier += 1
    return tier


def overlap(runs: Sequence[Run]) -> bool:
    """Whether two segments of these runs share a range of keys."""
    ranges = sorted((one.first_key, one.last_key) for run in runs for one in run.segments)
    return any(later[0] <= earlier[1] for earlier, later in pairwise(ranges))


@dataclass(frozen=True, slots=True)
class BlockStarts:
    """The first key of each block of a segment, and how many entries the block has."""

    first: Keys
    entries: U64


def cut_key(blocks: Sequence[BlockStarts], start: int, last: int, most: int) -> int:
    """The key up to which about `most` entries lie, counted from `start`; at most `last`."""
    first = concat_keys([one.first for one in blocks])
    entries = np.concatenate([one.entries for one in blocks])
    order = first.argsort()
    first = first.take(order)
    before = np.concatenate([[np.uint64(0)], np.cumsum(entries[order])])
    beyond = first.bounds(0, start).stop
    begin = max(beyond - len(blocks), 0)
    end = int(np.searchsorted(before, before[begin] + np.uint64(most), side="right")) - 1
    end = max(end, beyond)
    cut = first.at(end) - 1 if end < len(first) else last
    if int(before[end] - before[begin]) > 2 * most:
        # Keys that follow each other are one row, however many they are; then it is the keys that count.
        cut = min(cut, start + most)
    return min(cut, last)
