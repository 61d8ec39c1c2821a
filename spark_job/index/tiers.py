"""Decides which sorted runs of the index to merge, and how many entries in this commit. Pure.

A *sorted run* (below: run) is a set of segments whose keys do not overlap: the result of one commit, or of merging
several runs. A lookup searches at most one segment of each run, so runs must be few. A commit must not wait for the
whole index to be rewritten, so it rewrites a limited number of entries.

Runs fall into tiers by size. FAN_IN runs of one tier, adjacent in age, are merged into one run, one key range per
commit. The merged range leaves the old runs: their first key is raised.

    tier 0   ▪ ▪ ▪ ▪          four small runs become one of tier 1
    tier 1   ■ ■ ■
    tier 2   █
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

import numpy as np
from pydantic import BaseModel, ConfigDict

from spark_job.columns.distinct import distinct
from spark_job.index.segment import SegmentInfo

FAN_IN = 4
_TIER_0_ENTRIES = 4096
_MIN_REWRITTEN_ENTRIES = 1 << 17
_REWRITTEN_PER_ADDED_ENTRY = 8


@dataclass(frozen=True, slots=True)
class SortedRun:
    """Segments with one number, whose keys do not overlap."""

    number: int
    segments: tuple[SegmentInfo, ...]

    @property
    def entries(self) -> int:
        """Number of entries, including those of ranges that were trimmed off."""
        return sum(segment.entries for segment in self.segments)


class SortedRunGroup(BaseModel):
    """Runs that are being merged into run `target`; `inputs` are their numbers, newest first."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    target: int
    inputs: tuple[int, ...]


def group_sorted_runs(segments: Sequence[SegmentInfo]) -> list[SortedRun]:
    """Return the runs of an index, newest first."""
    return [
        SortedRun(number, tuple(run_segments))
        for number, run_segments in groupby(segments, key=lambda segment: segment.sorted_run)
    ]


def merge_budget(added: int) -> int:
    """Return how many entries a commit that adds `added` entries may rewrite: enough for every tier to keep up."""
    return max(_MIN_REWRITTEN_ENTRIES, _REWRITTEN_PER_ADDED_ENTRY * added)


def choose_groups(
    runs: Sequence[SortedRun], in_progress: Sequence[SortedRunGroup], next_sorted_run: int
) -> list[SortedRunGroup]:
    """Return the groups to merge, those with the smallest runs first: they cost most lookups."""
    sizes = {run.number: run.entries for run in runs}
    groups = [group for group in in_progress if any(number in sizes for number in group.inputs)]
    busy = {number for group in groups for number in (group.target, *group.inputs)}
    for is_busy, neighbours in groupby(runs, key=lambda run: run.number in busy):
        for run_numbers in _full_tiers(list(neighbours)) if not is_busy else ():
            groups.append(SortedRunGroup(target=next_sorted_run, inputs=run_numbers))
            next_sorted_run += 1
    return sorted(groups, key=lambda group: sum(sizes.get(number, 0) for number in group.inputs))


def _full_tiers(runs: list[SortedRun]) -> list[tuple[int, ...]]:
    """Return the run numbers of each full tier among neighbouring runs.

    A small run between large ones counts as large: runs merge only with neighbours in age.
    """
    tiers = np.maximum.accumulate([tier_of(run.entries) for run in runs])
    groups: list[tuple[int, ...]] = []
    first_free = 0
    for tier in distinct(tiers):
        members = [index for index in np.flatnonzero(tiers == tier).tolist() if index >= first_free]
        if len(members) < FAN_IN:
            continue
        end = members[-1] + 1
        total = sum(runs[index].entries for index in members)
        while end < len(runs) and runs[end].entries <= total:
            total += runs[end].entries
            end += 1
        groups.append(tuple(run.number for run in runs[members[0] : end]))
        first_free = end
    return groups


def tier_of(entries: int) -> int:
    """Return the tier of a run: 0 up to the smallest size, then one more for each factor FAN_IN."""
    tier = 0
    while entries > _TIER_0_ENTRIES:
        entries //= FAN_IN
        tier += 1
    return tier


def ranges_overlap(runs: Sequence[SortedRun]) -> bool:
    """Return whether the key ranges of two segments of these runs overlap."""
    ranges = sorted((segment.first_key, segment.last_key) for run in runs for segment in run.segments)
    return any(later[0] <= earlier[1] for earlier, later in pairwise(ranges))
