from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import PyArrowFileIO

from spark_job.columns.arrays import U64
from spark_job.index.damaged_segment import DamagedSegment
from spark_job.index.key_codec import Encoding, KeyCodec
from spark_job.index.keys import Keys
from spark_job.index.orders import read_orders
from spark_job.index.segment import TOMBSTONE, Entries, KeyDefinition, SegmentInfo
from spark_job.index.write_segment import write_segment
from spark_job.merge import locate
from spark_job.merge.effects import EventEffects, decide_effects
from spark_job.merge.locate import ABSENT, LocatedKeys, SearchableIndex, locate_keys
from tests.unit.spark_job.merge.samples import make_changes

CODEC = KeyCodec(Encoding.ORDERED_64)
Order = tuple[int, int]


def segment(
    io: PyArrowFileIO,
    folder: Path,
    entries: dict[int, tuple[int, int, Order]],
    files: Sequence[int] = (10, 11),
) -> SegmentInfo:
    """Write a segment of key → (file, position, order); `files` are the ordinals in the root."""
    keys = sorted(entries)
    columns = Entries(
        Keys(np.array(keys, np.uint64)),
        np.array([entries[key][0] for key in keys], np.int32),
        np.array([entries[key][1] for key in keys], np.int64),
        np.array([entries[key][2] for key in keys], np.uint64),
    )
    return write_segment(
        io, str(folder / f"{uuid4()}.puffin"), columns, KeyDefinition(CODEC), [], tuple(files)
    )


def find(
    io: PyArrowFileIO, segments: Sequence[SegmentInfo], requested: dict[int, Order]
) -> dict[int, tuple[int, int, int]]:
    """Return key → (file, position, newer) for changes of these orders."""
    keys = sorted(requested)
    orders = np.array([requested[key] for key in keys], np.uint64).reshape(len(keys), 2)
    located = locate_keys(SearchableIndex(io, tuple(segments)), Keys(np.array(keys, np.uint64)), orders)
    columns = (located.file.tolist(), located.pos.tolist(), located.order_comparison.tolist())
    return dict(zip(keys, zip(*columns, strict=True), strict=True))


def test_without_segments_every_key_is_new(io: PyArrowFileIO) -> None:
    assert find(io, [], {1: (0, 0), 2: (5, 5)}) == {1: (ABSENT, 0, 1), 2: (ABSENT, 0, 1)}


def test_live_row_is_found_in_the_file_of_the_root(tmp_path: Path, io: PyArrowFileIO) -> None:
    stored = segment(io, tmp_path, {5: (0, 7, (1, 1)), 6: (1, 8, (1, 1))}, files=(3, 9))
    assert find(io, [stored], {5: (2, 2), 6: (2, 2), 7: (2, 2)}) == {
        5: (3, 7, 1),
        6: (9, 8, 1),
        7: (ABSENT, 0, 1),
    }


def test_tombstone_is_found(tmp_path: Path, io: PyArrowFileIO) -> None:
    stored = segment(io, tmp_path, {5: (-1, 0, (4, 4))}, files=())
    assert find(io, [stored], {5: (4, 3)}) == {5: (TOMBSTONE, 0, -1)}


@pytest.mark.parametrize(
    ("order", "newer"),
    [((9, 9), 1), ((5, 4), 1), ((5, 3), 0), ((5, 2), -1), ((4, 9), -1), ((2**64 - 1, 0), 1)],
)
def test_change_is_older_equal_or_newer_than_its_entry(
    tmp_path: Path, io: PyArrowFileIO, order: Order, newer: int
) -> None:
    """Another key of the segment is greater, so the greatest order of the segment does not decide."""
    stored = segment(io, tmp_path, {5: (0, 7, (5, 3)), 6: (0, 8, (8, 8))})
    assert find(io, [stored], {5: order})[5][2] == newer


def test_newest_segment_with_a_key_decides(tmp_path: Path, io: PyArrowFileIO) -> None:
    old = segment(io, tmp_path, {1: (0, 1, (1, 1)), 2: (0, 2, (1, 1)), 3: (0, 3, (9, 9))}, files=(0,))
    new = segment(io, tmp_path, {1: (0, 50, (4, 4)), 3: (-1, 0, (5, 5))}, files=(1,))
    assert find(io, [new, old], {1: (3, 3), 2: (3, 3), 3: (6, 6)}) == {
        1: (1, 50, -1),
        2: (0, 2, 1),
        3: (TOMBSTONE, 0, 1),  # never the older entry, although its order is greater
    }


def test_orders_are_read_only_for_late_events(
    tmp_path: Path, io: PyArrowFileIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = segment(io, tmp_path, {number: (0, number, (number, 1)) for number in range(100)})
    read: list[list[int]] = []

    def count_reads(*arguments: Any) -> U64:
        read.append(arguments[3].tolist())
        return read_orders(*arguments)

    monkeypatch.setattr(locate, "read_orders", count_reads)
    find(io, [stored], dict.fromkeys(range(100), (200, 1)))
    assert read == []
    find(io, [stored], {10: (99, 1), 11: (99, 2), 12: (200, 1)})
    assert read == [[10]]


def test_segment_without_requested_keys_in_its_range_is_not_opened(tmp_path: Path, io: PyArrowFileIO) -> None:
    far = segment(io, tmp_path, {10**6: (0, 0, (1, 1))})
    Path(far.path).unlink()
    assert find(io, [far], {1: (1, 1), 10**7: (1, 1)}) == {1: (ABSENT, 0, 1), 10**7: (ABSENT, 0, 1)}


def test_entry_of_a_data_file_that_its_segment_does_not_list_is_damage(
    tmp_path: Path, io: PyArrowFileIO
) -> None:
    """It must not be resolved to a file of the next segment."""
    first = segment(io, tmp_path, {5: (1, 7, (1, 1))}, files=(3,))
    second = segment(io, tmp_path, {8: (0, 7, (1, 1))}, files=(4,))
    with pytest.raises(DamagedSegment, match="does not list"):
        find(io, [first, second], {5: (2, 2), 8: (2, 2)})


def test_disjoint_segments_are_searched_together(tmp_path: Path, io: PyArrowFileIO) -> None:
    def covering(*keys: int) -> SegmentInfo:
        return segment(io, tmp_path, dict.fromkeys(keys, (0, 0, (1, 1))))

    one, two, three, four, five = (
        covering(1, 3),
        covering(7, 9),
        covering(4, 6),
        covering(9, 12),
        covering(0, 0),
    )
    assert list(locate._layers((one, two, three, four, five))) == [(one, two, three), (four, five)]
    assert list(locate._layers((one, one))) == [(one,), (one,)]
    assert list(locate._layers(())) == []


_ENTRY = st.tuples(st.integers(-1, 1), st.integers(0, 50), st.tuples(st.integers(0, 3), st.integers(0, 3)))
_SEGMENT = st.dictionaries(st.integers(0, 25), _ENTRY, min_size=1, max_size=20)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(
    st.lists(_SEGMENT, max_size=4),
    st.dictionaries(st.integers(0, 30), st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=20),
)
def test_lookup_in_segments_equals_a_chain_of_dictionaries(
    tmp_path: Path,
    io: PyArrowFileIO,
    contents: list[dict[int, tuple[int, int, Order]]],
    requested: dict[int, Order],
) -> None:
    segments = [
        segment(io, tmp_path, content, files=(2 * number, 2 * number + 1))
        for number, content in enumerate(contents)
    ]
    expected = {}
    for key, order in requested.items():
        expected[key] = (ABSENT, 0, 1)
        for number, content in enumerate(contents):
            if key in content:
                file, pos, known = content[key]
                newer = (order > known) - (order < known)
                expected[key] = (TOMBSTONE, 0, newer) if file < 0 else (2 * number + file, pos, newer)
                break
    assert find(io, segments, requested) == expected


def effects_of(operation: str, file: int, newer: int, *, replay: bool = False) -> EventEffects:
    located = LocatedKeys(np.array([file], np.int32), np.zeros(1, np.int64), np.array([newer], np.int8))
    return decide_effects(make_changes([(1, operation, 1)]), located, is_replay=replay)


def counted_as(effects: EventEffects) -> str:
    names = ("inserted", "updated", "deleted", "stale", "unchanged")
    (name,) = [name for name in names if getattr(effects, name)]
    assert getattr(effects, name) == 1
    return name


LIVE = 4
DECISIONS = {
    # operation, location of the key, newer → counted as, writes, tombstone, removes the old row
    ("U", ABSENT, 1): ("inserted", True, False, False),
    ("U", LIVE, 1): ("updated", True, False, True),
    ("U", LIVE, 0): ("updated", True, False, True),
    ("U", LIVE, -1): ("stale", False, False, False),
    ("U", TOMBSTONE, 1): ("inserted", True, False, False),
    ("U", TOMBSTONE, 0): ("inserted", True, False, False),
    ("U", TOMBSTONE, -1): ("stale", False, False, False),
    ("D", ABSENT, 1): ("unchanged", False, True, False),
    ("D", LIVE, 1): ("deleted", False, True, True),
    ("D", LIVE, 0): ("deleted", False, True, True),
    ("D", LIVE, -1): ("stale", False, False, False),
    ("D", TOMBSTONE, 1): ("unchanged", False, True, False),
    ("D", TOMBSTONE, 0): ("unchanged", False, True, False),
    ("D", TOMBSTONE, -1): ("stale", False, False, False),
}


@pytest.mark.parametrize("case", DECISIONS)
def test_change_applies_unless_it_is_older(case: tuple[str, int, int]) -> None:
    effects = effects_of(*case)
    assert (
        counted_as(effects),
        bool(effects.writes[0]),
        bool(effects.tombstones[0]),
        bool(effects.removes[0]),
    ) == DECISIONS[case]


@pytest.mark.parametrize("case", DECISIONS)
def test_replay_applies_only_newer_changes(case: tuple[str, int, int]) -> None:
    effects = effects_of(*case, replay=True)
    applied = bool(effects.writes[0] or effects.tombstones[0] or effects.removes[0])
    if case[2] > 0:
        assert (counted_as(effects), bool(effects.writes[0])) == DECISIONS[case][:2]
    else:
        assert not applied
        assert counted_as(effects) == ("stale" if case[2] < 0 else "unchanged")


def test_every_change_is_counted_once() -> None:
    cases = list(DECISIONS)
    changes = make_changes([(key, operation, 1) for key, (operation, _, _) in enumerate(cases)])
    located = LocatedKeys(
        np.array([file for _, file, _ in cases], np.int32),
        np.zeros(len(cases), np.int64),
        np.array([newer for _, _, newer in cases], np.int8),
    )
    for replay in (False, True):
        effects = decide_effects(changes, located, is_replay=replay)
        total = effects.inserted + effects.updated + effects.deleted + effects.stale + effects.unchanged
        assert total == len(cases)
        assert not (effects.writes & effects.tombstones).any()
