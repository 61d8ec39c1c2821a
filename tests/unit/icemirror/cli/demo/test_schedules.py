from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from icemirror.cli.demo.traffic import DELETE, INSERT, Events
from tests.oracle.key_pools import KEY_KINDS, make_key_pool
from tests.oracle.schedules import NO_VALUES, Schedule


def _story(seed: int, commits: int = 40) -> list[list[Events]]:
    return list(islice(Schedule(seed, largest_commit=200).commits(), commits))


@pytest.mark.parametrize("kind", KEY_KINDS)
def test_keys_are_different_and_not_null(kind: str) -> None:
    pool = make_key_pool(kind, 50, np.random.default_rng(1))
    assert 2 <= pool.num_rows <= 50
    assert all(column.null_count == 0 for column in pool.columns)


def test_the_seed_settles_the_story() -> None:
    for one, other in zip(_story(5), _story(5), strict=True):
        assert [len(file) for file in one] == [len(file) for file in other]
        for left, right in zip(one, other, strict=True):
            assert np.array_equal(left.lsn, right.lsn)
            assert np.array_equal(left.revision, right.revision)


def test_every_kind_of_trouble_is_met() -> None:
    met: set[str] = set()
    for seed in range(6):
        seen: set[tuple[int, int]] = set()
        newest: dict[int, int] = {}
        for files in _story(seed):
            if not files:
                met.add("empty commit")
            if len(files) > 1:
                met.add("several files")
            commit = Events.concat(files)
            if len(set(commit.key.tolist())) < len(commit):
                met.add("key twice in a commit")
            sequences = list(zip(commit.lsn.tolist(), commit.ordinal.tolist(), strict=True))
            if len(set(sequences)) < len(sequences):
                met.add("tie")
            for event in range(len(commit)):
                key, operation = int(commit.key[event]), int(commit.operation[event])
                lsn, revision = int(commit.lsn[event]), int(commit.revision[event])
                if revision == NO_VALUES:
                    met.add("delete without values")
                elif (key, revision) in seen:
                    met.add("replay")
                seen.add((key, revision))
                if lsn >= 2**63:
                    met.add("sequence past the sign bit")
                if operation == DELETE and key not in newest:
                    met.add("delete of an absent key")
                if lsn < newest.get(key, 0):
                    met.add("late")
                if event and operation == INSERT and commit.operation[event - 1] == DELETE:
                    met.add("insert after delete")
                newest[key] = max(lsn, newest.get(key, 0))
    assert met == {
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


def test_a_commit_can_be_large() -> None:
    schedule = Schedule(3, "uuid", columns=("double",), distinct_keys=20_000, largest_commit=50_000)
    sizes = [sum(map(len, files)) for files in islice(schedule.commits(), 30)]
    assert max(sizes) > 20_000
