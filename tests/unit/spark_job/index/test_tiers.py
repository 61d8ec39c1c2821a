"""Merges keep runs few, rewrite few entries per commit, and keep the newest entry of each key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO

from spark_job.index import merge_segments, tiers
from spark_job.index.merge_segments import run_index_merge
from spark_job.index.plan_index_merge import BlockStarts, find_cut_key, plan_index_merge
from spark_job.index.scan import read_segment_entries
from spark_job.index.segment import SegmentInfo
from spark_job.index.tiers import SortedRun, SortedRunGroup, choose_groups, group_sorted_runs
from tests.unit.spark_job.index.indexed_commits import Commits
from tests.unit.spark_job.index.samples import (
    HASHED,
    ORDERED_64,
    make_keys,
    plain,
    random_numbers,
)


def run(number: int, entries: int) -> SortedRun:
    template = SegmentInfo.model_construct(entries=entries, sorted_run=number, first_key=0, last_key=9)
    return SortedRun(number, (template,))


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use small tiers, steps and commits, so that every case occurs often."""
    monkeypatch.setattr(tiers, "_TIER_0_ENTRIES", 8)
    monkeypatch.setattr(tiers, "_MIN_REWRITTEN_ENTRIES", 150)
    monkeypatch.setattr("spark_job.index.plan_index_merge.MAX_STEP_ENTRIES", 64)


@pytest.mark.usefixtures("small")
def test_large_disjoint_runs_are_joined_without_a_rewrite(tmp_path: Path, io: PyArrowFileIO) -> None:
    random = np.random.default_rng(1)
    index = Commits(io, tmp_path, ORDERED_64)
    for number in range(6):
        index.commit(list(range(number * 100, number * 100 + 100)), random)
    assert sum(index.rewritten) == 0
    assert len(group_sorted_runs(index.root.segments)) < 6
    index.check()


@pytest.mark.usefixtures("small")
def test_files_of_a_failed_merge_are_removed(
    tmp_path: Path, io: PyArrowFileIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(1)
    index = Commits(io, tmp_path, HASHED)
    pool = random_numbers(HASHED, 400, random)
    for _ in range(tiers.FAN_IN):
        index.commit(sorted(pool[position] for position in random.choice(400, 60, replace=False)), random)
    before = set(tmp_path.iterdir())
    merge = plan_index_merge(io, str(tmp_path), index.root, 1)
    assert len(merge.steps) > 1
    written: list[merge_segments.MergedStep] = []
    merge_step = merge_segments.merge_step

    def fail_later(*arguments: Any) -> merge_segments.MergedStep:
        if written:
            raise RuntimeError
        written.append(merge_step(*arguments))
        return written[-1]

    monkeypatch.setattr(merge_segments, "merge_step", fail_later)
    with pytest.raises(RuntimeError):
        run_index_merge(merge)
    assert written[0].segment is not None, "a file must be removed"
    assert set(tmp_path.iterdir()) == before


def test_adjacent_runs_of_one_tier_are_merged_with_smaller_ones_between_them() -> None:
    sizes = [10, 10, 90_000, 10, 90_000, 90_000, 2_000_000]
    runs = [run(100 - position, size) for position, size in enumerate(sizes)]
    assert choose_groups(runs, (), 7) == [SortedRunGroup(target=7, inputs=(98, 97, 96, 95))]


def test_older_run_that_is_not_larger_than_the_group_is_included() -> None:
    runs = [run(9, 4000), run(8, 4000), run(7, 4000), run(6, 4000), run(5, 16_000), run(4, 40_000)]
    assert choose_groups(runs, (), 20) == [SortedRunGroup(target=20, inputs=(9, 8, 7, 6, 5))]


def test_running_group_is_not_extended() -> None:
    runs = [run(9, 10), run(8, 10), run(20, 30), run(7, 10), run(6, 10), run(5, 10), run(4, 10)]
    running = SortedRunGroup(target=20, inputs=(7, 6, 5, 4))
    assert choose_groups(runs, [running], 21) == [running]


def test_cut_is_after_enough_entries_and_never_before_the_start() -> None:
    blocks = BlockStarts(make_keys(ORDERED_64, range(0, 100, 10)), np.full(10, 10, dtype=np.uint64))
    assert find_cut_key([blocks], 0, 95, 30) == 29
    assert find_cut_key([blocks], 30, 95, 30) == 59
    assert find_cut_key([blocks], 0, 95, 1000) == 95
    assert find_cut_key([blocks], 35, 95, 1) == 36
    long_run = BlockStarts(make_keys(ORDERED_64, [0, 10**9]), np.array([10**9, 5], dtype=np.uint64))
    assert find_cut_key([long_run], 0, 10**9 + 4, 1000) == 1000


def test_merged_segments_list_the_files_that_they_cover(tmp_path: Path, io: PyArrowFileIO) -> None:
    random = np.random.default_rng(3)
    index = Commits(io, tmp_path, ORDERED_64)
    for _ in range(9):
        index.commit(sorted(random.choice(5000, 300, replace=False).tolist()), random)
    (merged, *_) = [
        segment for segment in index.root.segments if segment.files != (0, 1, 2) or segment.entries > 300
    ]
    entries = read_segment_entries(io, merged)
    assert set(np.unique(entries.file).tolist()) <= {-1, *range(len(merged.files))}
    assert plain(entries.keys) == sorted(plain(entries.keys))
