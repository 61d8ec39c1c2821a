from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from icemirror.cli.demo.change_generator import DELETE, INSERT, Events
from tests.oracle.key_pools import KEY_KINDS, make_key_pool
from tests.oracle.schedules import NO_VALUES, Schedule


def _commits(seed: int, commits: int = 40) -> list[list[Events]]:
    return list(islice(Schedule(seed, largest_commit=200).commits(), commits))


@pytest.mark.parametrize("kind", KEY_KINDS)
def test_keys_are_distinct_and_not_null(kind: str) -> None:
    pool = make_key_pool(kind, 50, np.random.default_rng(1))
    assert 2 <= pool.num_rows <= 50
    assert all(column.null_count == 0 for column in pool.columns)


def test_seed_determines_the_schedule() -> None:
    for first, second in zip(_commits(5), _commits(5), strict=True):
        assert [len(file) for file in first] == [len(file) for file in second]
        for left, right in zip(first, second, strict=True):
            assert np.array_equal(left.lsn, right.lsn)
            assert np.array_equal(left.revision, right.revision)


def test_schedules_contain_every_hard_case() -> None:
    cases: set[str] = set()
    for seed in range(6):
        seen: set[tuple[int, int]] = set()
        newest: dict[int, int] = {}
        for files in _commits(seed):
            if not files:
                cases.add("empty commit")
            if len(files) > 1:
                cases.add("several files")
            commit = Events.concat(files)
            if len(set(commit.key.tolist())) < len(commit):
                cases.add("key twice in a commit")
            sequences = list(zip(commit.lsn.tolist(), commit.ordinal.tolist(), strict=True))
            if len(set(sequences)) < len(sequences):
                cases.add("tie")
            for event in range(len(commit)):
                key, operation = int(commit.key[event]), int(commit.operation[event])
                lsn, revision = int(commit.lsn[event]), int(commit.revision[event])
                if revision == NO_VALUES:
                    cases.add("delete without values")
                elif (key, revision) in seen:
                    cases.add("replay")
                seen.add((key, revision))
                if lsn >= 2**63:
                    cases.add("sequence past the sign bit")
                if operation == DELETE and key not in newest:
                    cases.add("delete of an absent key")
                if lsn < newest.get(key, 0):
                    cases.add("late")
                if event and operation == INSERT and commit.operation[event - 1] == DELETE:
                    cases.add("insert after delete")
                newest[key] = max(lsn, newest.get(key, 0))
    assert cases == {
        "empty commit",
        "several files",
        "key twice in a commit",
        "tie",
        "delete without values",
        "replay",
        "sequence past the sign bit",
        "delete of an absent key",
        "late",
        "insert after delete",
    }


def test_schedule_contains_large_commits() -> None:
    schedule = Schedule(3, "uuid", columns=("double",), distinct_keys=20_000, largest_commit=50_000)
    sizes = [sum(map(len, files)) for files in islice(schedule.commits(), 30)]
    assert max(sizes) > 20_000
