"""A slice with thousands of partitions writes one file per partition, with few open files at a time.

Shards do not multiply the files.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spark_job.engine.engine import InProcessEngine
from spark_job.merge import write_winners
from spark_job.write.parquet_writer import ParquetFileWriter
from spark_job.write.partition_sampler import choose_shards
from tests.lab.lab import Lab
from tests.lab.next_work import next_work
from tests.lab.partitions import commit, count_files, in_order, make, partitions_by_key, scattered

MANY = 5000
_WRITERS = 4


def open_files() -> int:
    return len(list(Path("/dev/fd").iterdir()))


def test_many_partitions_are_written_with_few_files_open_and_one_file_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = make(tmp_path)
    opened, write = list[int](), ParquetFileWriter.write

    def write_and_count(*arguments: Any) -> dict[str, Any]:
        opened.append(open_files())
        return write(*arguments)

    monkeypatch.setattr(ParquetFileWriter, "write", write_and_count)
    commit(lab, list(range(MANY)))
    before = open_files()
    lab.merge()
    assert len(opened) == count_files(lab) == MANY
    assert max(opened) <= before + 4 * _WRITERS


@pytest.mark.parametrize(("wanted", "expected"), [(1, 1), (2, 1), (7, 1), (64, 1)])
def test_partitions_independent_of_the_key_get_one_shard(wanted: int, expected: int) -> None:
    keys = np.arange(16_000, dtype=np.uint64)
    partitions = np.array(scattered(16_000, MANY))
    assert choose_shards(keys, partitions, 1_000_000, wanted) == expected


@pytest.mark.parametrize("wanted", [1, 2, 7, 64])
def test_partitions_that_follow_the_key_get_all_shards(wanted: int) -> None:
    keys = np.random.default_rng(2).permutation(16_000).astype(np.uint64)
    partitions = (keys.astype(np.int64) * MANY) // 16_000
    assert choose_shards(keys, partitions, 1_000_000, wanted) == wanted


@pytest.mark.parametrize(
    ("partitions", "wanted", "shards"), [(20, 8, 8), (20, 64, 8), (100, 64, 2), (36, 4, 4)]
)
def test_few_partitions_may_have_several_files_each(partitions: int, wanted: int, shards: int) -> None:
    keys = np.arange(16_000, dtype=np.uint64)
    assert choose_shards(keys, np.array(scattered(16_000, partitions)), 1_000_000, wanted) == shards


def test_shard_count_follows_a_sample_of_the_slice(tmp_path: Path) -> None:
    lab = make(tmp_path)
    commit(lab, scattered(6000, 600))
    assert next_work(lab).limit_shards(8) == 1
    lab.merge()
    commit(lab, in_order(6000, 600), sequence=2)
    assert next_work(lab).limit_shards(8) == 8


def test_mirror_without_partitions_gets_all_shards(tmp_path: Path) -> None:
    lab = Lab.make(tmp_path)
    lab.commit_events("I1@1")
    lab.merge()
    lab.commit_events("I2@1 I3@1")
    assert next_work(lab).limit_shards(8) == 8


@pytest.mark.parametrize("version", [2, 3])
def test_pieces_are_split_at_partition_boundaries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    pieces = 0
    write = write_winners._write_at_once

    def write_and_count(*arguments: Any) -> Any:
        nonlocal pieces
        written = write(*arguments)
        pieces += 1
        return written

    monkeypatch.setattr(write_winners, "_write_at_once", write_and_count)
    monkeypatch.setattr(write_winners, "max_row_bytes", lambda _: 20_000)
    lab = make(tmp_path, version)
    first, second = scattered(2000, 40), scattered(2000, 40)[::-1]
    commit(lab, first)
    lab.merge()
    assert pieces > 4
    assert count_files(lab) <= 40 + pieces
    assert partitions_by_key(lab) == dict(enumerate(first))
    commit(lab, second, sequence=2)
    lab.merge()
    assert partitions_by_key(lab) == dict(enumerate(second))


def test_explicit_shards_merge_the_same_rows(tmp_path: Path) -> None:
    lab = make(tmp_path)
    partitions = scattered(500, 30)
    commit(lab, partitions)
    lab = lab.reconfigure("partition_by: [part]\ncompact: false", engine=InProcessEngine(4))
    lab.merge()
    assert partitions_by_key(lab) == dict(enumerate(partitions))
