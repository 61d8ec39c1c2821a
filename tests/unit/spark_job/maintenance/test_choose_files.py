"""The choice of small data files to compact."""

from __future__ import annotations

from collections import Counter

import pytest
from pyiceberg.typedef import Record

from spark_job.iceberg.live_files import LiveFile
from spark_job.maintenance import choose_files
from spark_job.maintenance.choose_files import FAN_IN, choose_files_to_compact

KB, MB = 1 << 10, 1 << 20


def files(
    count: int, size: int, *, partition: int = 0, spec_id: int = 0, rows: int = 100, deleted: int = 0
) -> list[LiveFile]:
    return [
        LiveFile(
            path=f"{partition}-{size}-{rows}-{deleted}-{number}",
            rows=rows,
            deleted_rows=deleted,
            spec_id=spec_id,
            partition=Record(partition),
            first_row_id=number,
            bytes=size,
        )
        for number in range(count)
    ]


def groups(live: list[LiveFile], target: int = 512 * MB) -> list[tuple[LiveFile, ...]]:
    return list(choose_files_to_compact(live, 0, target, with_row_ids=False))


def chosen(live: list[LiveFile]) -> list[LiveFile]:
    return [file for group in groups(live) for file in group]


def test_no_compaction_before_a_tier_is_full() -> None:
    few = files(FAN_IN - 1, 20 * KB) + files(FAN_IN - 1, 200 * KB) + files(100, 40 * MB)
    assert chosen(few) == []
    assert len(chosen([*few, *files(1, 21 * KB)])) == FAN_IN


def test_files_of_different_partitions_are_not_counted_together() -> None:
    separate = [file for partition in range(50) for file in files(FAN_IN - 1, KB, partition=partition)]
    assert chosen(separate) == []
    more = [*separate, *files(2, 2 * KB, partition=7)]
    assert Counter(file.partition for file in chosen(more)) == {Record(7): FAN_IN + 1}


def test_large_file_with_few_live_rows_counts_as_small() -> None:
    sparse = files(FAN_IN, 32 * MB, rows=100_000, deleted=99_990)
    assert chosen(sparse) == sparse
    assert chosen(files(FAN_IN, 32 * MB, rows=100_000, deleted=10)) == []


def test_file_that_is_expensive_to_read_is_not_small() -> None:
    assert chosen(files(FAN_IN, 33 * MB, rows=100_000, deleted=99_990)) == []
    assert len(chosen(files(100, 30 * MB, rows=100_000, deleted=99_990))) == FAN_IN, "whole files are read"


def test_empty_files_alone_are_not_compacted() -> None:
    empty = files(FAN_IN, KB, deleted=100)
    assert chosen(empty) == []
    assert len(chosen([*empty, *files(1, KB)])) == FAN_IN + 1


def test_files_with_rows_are_chosen_before_empty_ones() -> None:
    (group,) = groups(files(300, KB, deleted=100) + files(5, KB))
    assert [file.deleted_rows for file in group[:6]] == [0, 0, 0, 0, 0, 100]


def test_files_near_the_target_size_are_not_small() -> None:
    small = files(FAN_IN, 3 * KB)
    assert groups(small, target=24 * KB) == [tuple(small)]
    assert groups(small, target=24 * KB - 1) == []


def test_nan_partition_values_are_equal() -> None:
    nan = [
        LiveFile(
            path=str(number), rows=1, deleted_rows=0, spec_id=0, partition=Record(float("nan")), bytes=KB
        )
        for number in range(FAN_IN)
    ]
    assert len(chosen(nan)) == FAN_IN


def test_sizes_and_partitions_are_grouped_separately() -> None:
    separate = files(FAN_IN, KB) + files(FAN_IN, 20 * KB) + files(FAN_IN, KB, partition=1)
    assert sorted(len(group) for group in groups(separate)) == [FAN_IN] * 3


def test_files_of_an_older_spec_and_v3_files_without_row_ids_are_skipped() -> None:
    assert chosen(files(FAN_IN, KB, spec_id=1)) == []
    without_row_ids = [
        LiveFile(path=str(number), rows=1, deleted_rows=0, spec_id=0, partition=Record(), bytes=KB)
        for number in range(9)
    ]
    assert [
        len(group) for group in choose_files_to_compact(without_row_ids, 0, 512 * MB, with_row_ids=False)
    ] == [9]
    assert choose_files_to_compact(without_row_ids, 0, 512 * MB, with_row_ids=True) == ()


def test_size_of_one_commit_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    many = files(100, 3 * MB)
    compacted = chosen(many)
    assert FAN_IN <= len(compacted) < 100
    assert sum(file.bytes for file in compacted) <= 32 * MB
    monkeypatch.setattr(choose_files, "_MAX_FILES", 20)
    assert len(chosen(files(100, KB))) == 20
    two = files(12, KB, partition=1) + files(12, 2 * KB, partition=2)
    assert {file.partition for file in chosen(two)} == {Record(1), Record(2)}
    monkeypatch.setattr(choose_files, "_MAX_FILES", 15)
    assert Counter(file.partition for file in chosen(two)) == {Record(1): 12}, "three files are too few"


def test_rows_are_rewritten_once_for_each_tier() -> None:
    """Add a thousand small files, one at a time: few remain, and each row is rewritten few times."""
    live: list[LiveFile] = []
    rewritten = 0
    for number in range(1000):
        live += files(1, 15 * KB, rows=500 + number)
        compacted = chosen(live)
        if compacted:
            paths = {file.path for file in compacted}
            rewritten += sum(file.bytes for file in compacted) // (15 * KB)
            sizes = [sum(file.bytes for file in group) for group in groups(live)]
            live = [file for file in live if file.path not in paths]
            live += [
                LiveFile(f"merged-{number}-{size}", 1, 0, 0, Record(0), first_row_id=0, bytes=size)
                for size in sizes
            ]
    assert len(live) <= 4 * FAN_IN
    assert rewritten <= 3 * 1000
