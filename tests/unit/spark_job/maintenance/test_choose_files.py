"""Which small data files are compacted."""

from __future__ import annotations

from collections import Counter

import pytest
from pyiceberg.typedef import Record

from spark_job.iceberg.live_files import LiveFile
from spark_job.maintenance import choose_files as choose
from spark_job.maintenance.choose_files import FAN_IN, choose_files_to_compact

KB, MB = 1 << 10, 1 << 20


def files(
    count: int, size: int, *, partition: int = 0, spec_id: int = 0, rows: int = 100, deleted: int = 0
) -> list[LiveFile]:
    return [
        LiveFile(
            path=f"{partition}-{size}-{rows}-{deleted}-{at}",
            rows=rows,
            deleted=deleted,
            spec_id=spec_id,
            partition=Record(partition),
            first_row_id=at,
            bytes=size,
        )
        for at in range(count)
    ]


def groups(live: list[LiveFile], target: int = 512 * MB) -> list[tuple[LiveFile, ...]]:
    return list(choose_files_to_compact(live, 0, target, with_row_ids=False))


def chosen(live: list[LiveFile]) -> list[LiveFile]:
    return [file for group in groups(live) for file in group]


def test_no_compaction_before_a_tier_is_full() -> None:
    few = files(FAN_IN - 1, 20 * KB) + files(FAN_IN - 1, 200 * KB) + files(100, 40 * MB)
    assert chosen(few) == []
    assert len(chosen([*few, *files(1, 21 * KB)])) == FAN_IN


def test_only_files_of_one_partition_count_together() -> None:
    apart = [one for partition in range(50) for one in files(FAN_IN - 1, KB, partition=partition)]
    assert chosen(apart) == []
    more = [*apart, *files(2, 2 * KB, partition=7)]
    assert Counter(one.partition for one in chosen(more)) == {Record(7): FAN_IN + 1}


def test_a_large_file_with_few_rows_left_is_a_small_one() -> None:
    sparse = files(FAN_IN, 32 * MB, rows=100_000, deleted=99_990)
    assert chosen(sparse) == sparse
    assert chosen(files(FAN_IN, 32 * MB, rows=100_000, deleted=10)) == []


def test_a_file_that_is_much_to_read_is_none_however_few_rows_are_left() -> None:
    assert chosen(files(FAN_IN, 33 * MB, rows=100_000, deleted=99_990)) == []
    assert len(chosen(files(100, 30 * MB, rows=100_000, deleted=99_990))) == FAN_IN, "all of it is read"


def test_empty_files_alone_are_not_compacted() -> None:
    dead = files(FAN_IN, KB, deleted=100)
    assert chosen(dead) == []
    assert len(chosen([*dead, *files(1, KB)])) == FAN_IN + 1


def test_files_with_rows_are_chosen_before_empty_ones() -> None:
    (taken,) = groups(files(300, KB, deleted=100) + files(5, KB))
    assert [file.deleted for file in taken[:6]] == [0, 0, 0, 0, 0, 100]


def test_files_as_large_as_the_table_wants_them_are_not_small() -> None:
    small = files(FAN_IN, 3 * KB)
    assert groups(small, target=24 * KB) == [tuple(small)]
    assert groups(small, target=24 * KB - 1) == []


def test_a_partition_of_nothing_that_is_a_number_is_one() -> None:
    nan = [
        LiveFile(path=str(at), rows=1, deleted=0, spec_id=0, partition=Record(float("nan")), bytes=KB)
        for at in range(FAN_IN)
    ]
    assert len(chosen(nan)) == FAN_IN


def test_sizes_and_partitions_stay_apart() -> None:
    apart = files(FAN_IN, KB) + files(FAN_IN, 20 * KB) + files(FAN_IN, KB, partition=1)
    assert sorted(len(group) for group in groups(apart)) == [FAN_IN] * 3


def test_files_of_an_older_spec_and_v3_files_without_row_ids_are_skipped() -> None:
    assert chosen(files(FAN_IN, KB, spec_id=1)) == []
    unnumbered = [
        LiveFile(path=str(at), rows=1, deleted=0, spec_id=0, partition=Record(), bytes=KB) for at in range(9)
    ]
    assert [len(one) for one in choose_files_to_compact(unnumbered, 0, 512 * MB, with_row_ids=False)] == [9]
    assert choose_files_to_compact(unnumbered, 0, 512 * MB, with_row_ids=True) == ()


def test_one_commit_takes_no_more_than_it_can_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    many = files(100, 3 * MB)
    taken = chosen(many)
    assert FAN_IN <= len(taken) < 100
    assert sum(one.bytes for one in taken) <= 32 * MB
    monkeypatch.setattr(choose, "_MAX_FILES", 20)
    assert len(chosen(files(100, KB))) == 20
    two = files(12, KB, partition=1) + files(12, 2 * KB, partition=2)
    assert {one.partition for one in chosen(two)} == {Record(1), Record(2)}
    monkeypatch.setattr(choose, "_MAX_FILES", 15)
    assert Counter(one.partition for one in chosen(two)) == {Record(1): 12}, "three files are not worth it"


def test_rows_are_rewritten_once_for_each_tier() -> None:
    """A thousand small files, one after the other: few stay, and each row moves a few times."""
    live: list[LiveFile] = []
    moved = 0
    for at in range(1000):
        live += files(1, 15 * KB, rows=500 + at)
        taken = chosen(live)
        if taken:
            gone = {one.path for one in taken}
            moved += sum(one.bytes for one in taken) // (15 * KB)
            sizes = [sum(one.bytes for one in group) for group in groups(live)]
            live = [one for one in live if one.path not in gone]
            live += [
                LiveFile(f"merged-{at}-{size}", 1, 0, 0, Record(0), first_row_id=0, bytes=size)
                for size in sizes
            ]
    assert len(live) <= 4 * FAN_IN
    assert moved <= 3 * 1000
