"""Many commits on an index: the number of runs stays bounded, and the newest entry of every key is found."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO

from spark_job.index import blocks, byte_ranges, tiers
from spark_job.index.key_codec import KeyCodec
from spark_job.index.tiers import group_sorted_runs
from spark_job.merge import locate
from tests.unit.spark_job.index.indexed_commits import Commits
from tests.unit.spark_job.index.samples import (
    CODECS,
    HASHED,
    random_numbers,
)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small tiers, pieces and commits, so that every case occurs often."""
    monkeypatch.setattr(tiers, "_TIER_0_ENTRIES", 8)
    monkeypatch.setattr(tiers, "_MIN_REWRITTEN_ENTRIES", 150)
    monkeypatch.setattr("spark_job.index.plan_index_merge.MAX_STEP_ENTRIES", 64)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("seed", range(3))
def test_newest_entry_of_every_key_is_found_while_runs_are_merged(
    tmp_path: Path, io: PyArrowFileIO, monkeypatch: pytest.MonkeyPatch, codec: KeyCodec, seed: int
) -> None:
    if seed:  # like an object store: all small segments at once, or none
        for module in (blocks, locate, byte_ranges):
            monkeypatch.setattr(module, "is_remote", lambda path: True)
        monkeypatch.setattr(locate, "_PREFETCHED_LAYER_BYTES", 10_000 * seed)
    random = np.random.default_rng(seed)
    index = Commits(io, tmp_path, codec)
    pool = random_numbers(codec, 900, random)
    for number in range(60):
        size = int(random.choice([1, 3, 10, 40, 200], p=[0.2, 0.3, 0.3, 0.15, 0.05]))
        chosen = random.choice(len(pool), min(size, len(pool)), replace=False)
        index.commit(sorted(pool[at] for at in chosen), random, shards=int(random.integers(1, 4)))
        if number % 7 == 0:
            index.check()
    index.check()
    assert max(index.rewritten) > 0


def test_number_of_runs_and_rewritten_entries_stay_bounded(
    tmp_path: Path, io: PyArrowFileIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiers, "_TIER_0_ENTRIES", 256)
    monkeypatch.setattr(tiers, "_MIN_REWRITTEN_ENTRIES", 8000)
    random = np.random.default_rng(1)
    index = Commits(io, tmp_path, HASHED)
    pool = random_numbers(HASHED, 100_000, random)
    most_runs = 0
    for _ in range(300):
        chosen = random.choice(len(pool), 200, replace=False)
        index.commit(sorted(pool[at] for at in chosen), random)
        most_runs = max(most_runs, len(group_sorted_runs(index.root.segments)))
    index.check()
    assert most_runs <= 5 * tiers.FAN_IN
    assert max(index.rewritten) <= 2 * 8000
    assert sum(index.rewritten) <= 300 * 200 * 8
