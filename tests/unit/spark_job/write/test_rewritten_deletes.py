"""The choice of position delete files that a merge rewrites."""

from __future__ import annotations

import numpy as np
from pyiceberg.typedef import Record

from spark_job.iceberg.live_files import LiveDelete, LiveFile
from spark_job.write.plan_deletes import choose_rewritten_deletes, choose_small_deletes


def delete_of(rows: int, number: int = 0, offset: int | None = None) -> LiveDelete:
    return LiveDelete(f"{rows}-{number}.parquet", "m.avro", rows, 100, offset)


def rows_of(deletes: list[LiveDelete]) -> list[int]:
    return [delete.rows for delete in deletes]


def test_few_delete_files_are_not_rewritten() -> None:
    assert choose_small_deletes([delete_of(10, number) for number in range(7)], 10) == []


def test_small_delete_files_are_rewritten_together() -> None:
    assert rows_of(choose_small_deletes([delete_of(10, number) for number in range(8)], 10)) == [10] * 8


def test_delete_file_larger_than_all_smaller_ones_is_kept() -> None:
    deletes = [*(delete_of(10, number) for number in range(8)), delete_of(1000)]
    assert rows_of(choose_small_deletes(deletes, 10)) == [10] * 8


def test_largest_delete_files_are_never_rewritten() -> None:
    deletes = [delete_of(300_000, number) for number in range(9)]
    assert choose_small_deletes(deletes, 300_000) == []


def test_delete_files_stay_few_and_each_row_is_rewritten_few_times() -> None:
    deletes: list[LiveDelete] = []
    written = 0
    for number in range(1000):
        rewritten = choose_small_deletes(deletes, 2000)
        deletes = [delete for delete in deletes if delete not in rewritten]
        deletes.append(delete_of(2000 + sum(rows_of(rewritten)), number))
        written += deletes[-1].rows
        assert len(deletes) <= 24
    assert sum(rows_of(deletes)) == 2_000_000
    assert written <= 8 * 2_000_000


def live_file(path: str, partition: int, *deletes: LiveDelete) -> LiveFile:
    return LiveFile(path, 100, sum(delete.rows for delete in deletes), 0, Record(partition), deletes=deletes)


def test_only_partitions_with_new_deletes_are_rewritten() -> None:
    first = [delete_of(1, number) for number in range(9)]
    second = [delete_of(1, number) for number in range(9, 18)]
    live = {"a": live_file("a", 1, *first), "b": live_file("b", 2, *second)}
    assert set(choose_rewritten_deletes({"a": np.array([5])}, live)) == set(first)


def test_delete_file_for_several_partitions_is_kept() -> None:
    shared = [delete_of(1, number) for number in range(9)]
    live = {"a": live_file("a", 1, *shared), "b": live_file("b", 2, *shared)}
    assert choose_rewritten_deletes({"a": np.array([5])}, live) == []
