"""Compaction in hard cases: it ends, stays within its limits, fails no merge, and compacts what it can."""

from __future__ import annotations

import secrets
import time
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import schema_to_pyarrow

from icemirror.errors import Kind
from spark_job.commit.row_delta import RowDelta
from spark_job.iceberg.live_files import live_files
from spark_job.maintenance import choose_files as choose
from spark_job.maintenance import move_rows
from spark_job.maintenance.choose_files import FAN_IN
from spark_job.merge.locate import look_up_keys
from spark_job.storage.immutable_cache import clear_file_caches
from spark_job.worker.compact_table import compact_table
from spark_job.write.data_files import write_rows
from tests.lab import foreign
from tests.lab.lab import ID_AND_NAME, Lab, local_path, sequence_text
from tests.tables.compaction.test_compact import OFF, assert_sound, compacted, data_files, grow

MB = 1 << 20


def tell_rows(lab: Lab, first: int, names: pa.Array) -> None:
    """New rows with these names."""
    ids = np.arange(first, first + len(names))
    rows = pa.table(
        {
            "id": ids,
            "name": names,
            "cdc_operation": ["INSERT"] * len(ids),
            "sequence_number": [sequence_text(int(one) + 1) for one in ids],
        }
    )
    lab.commit(rows.cast(schema_to_pyarrow(ID_AND_NAME)))
    lab.merge()


def swell(lab: Lab, files: int, rows: int = 4000) -> None:
    """Files of some kilobytes whose rows take 16 MB each."""
    texts = pa.array(["x" * 4000, "y" * 4000])
    for at in range(files):
        names = pa.DictionaryArray.from_arrays(pa.array(np.arange(rows) % 2), texts).cast(pa.large_string())
        tell_rows(lab, at * rows, names)


class Peak:
    """The most that Arrow held more meanwhile."""

    def __enter__(self) -> Peak:
        self.bytes, self._before, self._done = 0, pa.total_allocated_bytes(), Event()
        self._thread = Thread(target=self._watch)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._done.wait(0.002):
            self.bytes = max(self.bytes, pa.total_allocated_bytes() - self._before)

    def __exit__(self, *_error: object) -> None:
        self._done.set()
        self._thread.join()


def test_the_memory_of_all_files_together_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab.make(tmp_path, options=OFF)
    swell(lab, 12)
    monkeypatch.setattr(move_rows, "MAX_BYTES", 24 * MB)
    before = lab.files_on_disk()
    with Peak() as peak:
        assert compacted(lab) is None
    assert peak.bytes < 80 * MB, f"{peak.bytes >> 20} MB, of 192 that the rows of all files take"
    assert lab.files_on_disk() == before


def test_fewer_files_are_compacted_if_all_exceed_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab.make(tmp_path, options=OFF)
    rows = grow(lab, 3 * FAN_IN)
    monkeypatch.setattr(move_rows, "MAX_BYTES", 600)
    done = compacted(lab)
    assert done is not None
    assert done.files_before == FAN_IN
    assert lab.rows() == rows


def test_heavy_group_does_not_block_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab.make(tmp_path, options=OFF)
    swell(lab, FAN_IN)
    for at in range(FAN_IN):
        lab.commit_events(f"I{10**7 + at}@{10**7 + at}")
        lab.merge()
    monkeypatch.setattr(move_rows, "MAX_BYTES", 24 * MB)
    done = compact_table(lab.pipeline, lab.table, dry_run=False)
    assert (done.files_before, done.files_after, done.left) == (FAN_IN, 1, FAN_IN)

    def refuse(*_given: object) -> None:
        raise AssertionError("read files again that cannot be compacted")

    monkeypatch.setattr("spark_job.maintenance.compact.move_rows", refuse)
    assert compacted(lab) is None


def test_a_damaged_file_keeps_its_own_partition_only(tmp_path: Path) -> None:
    partitions = 'partition_by: ["truncate[1000](id)"]'
    lab = Lab.make(tmp_path, options=f"{OFF}\n{partitions}")
    for at in range(FAN_IN):
        lab.commit_events(" ".join(f"I{1000 * part + at}@{10 * at + part + 1}" for part in range(4)))
        lab.merge()
    live = live_files(lab.mirror.io, lab.mirror.current_snapshot())
    victim = local_path(next(path for path, file in live.items() if file.partition[0] == 0))
    victim.write_bytes(victim.read_bytes()[:-9])
    clear_file_caches()
    lab = lab.reconfigure(partitions)
    lab.commit_events("I3999@1000")
    assert lab.merge().outcome == "merged"
    assert data_files(lab) == FAN_IN + 3, "one of each other partition"


@pytest.mark.parametrize("target", [4 << 10, 32 << 10])
def test_files_that_are_as_large_as_they_should_be_are_left(tmp_path: Path, target: int) -> None:
    options = f'{OFF}\ntable_properties: {{write.target-file-size-bytes: "{target}"}}'
    lab = Lab.make(tmp_path, options=options)
    for at in range(FAN_IN + 1):
        tell_rows(lab, at * 200, pa.array([secrets.token_hex(60) for _ in range(200)]))
    done = compact_table(lab.pipeline, lab.table, dry_run=False)
    assert done.commits == 0
    assert compact_table(lab.pipeline, lab.table, dry_run=True).files_before == 0


def test_files_that_do_not_become_fewer_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab.make(tmp_path, options=OFF)
    rows = grow(lab)
    right = write_rows
    before = lab.files_on_disk()

    def one_by_one(io: Any, metadata: Any, table: pa.Table, written: list[str]) -> Any:
        parts = [right(io, metadata, table.slice(at, 1), written) for at in range(table.num_rows)]
        count = np.arange(table.num_rows)
        files = tuple(file for part in parts for file in part.files)
        return type(parts[0])(files, count.astype(np.int32), np.zeros_like(count))

    monkeypatch.setattr(move_rows, "write_rows", one_by_one)
    assert compacted(lab) is None
    assert lab.files_on_disk() == before
    assert lab.rows() == rows


def test_empty_files_are_compacted_with_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "_MAX_FILES", 10)
    lab = Lab.make(tmp_path, options=OFF)
    for at in range(16):
        lab.commit_events(f"I{at}@{at + 1}")
        lab.merge()
    lab.commit_events(" ".join(f"D{at}@{100 + at}" for at in range(12)))
    lab.merge()
    done = compact_table(lab.pipeline, lab.table, dry_run=False)
    assert done.commits > 0
    assert data_files(lab) < FAN_IN
    assert set(lab.rows()) == {12, 13, 14, 15}
    assert_sound(lab)


def test_unexpected_compaction_error_fails_no_merge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab.make(tmp_path, options=OFF)
    rows = grow(lab)

    def broken(*_given: object) -> None:
        raise RuntimeError("cannot start a thread")

    monkeypatch.setattr(move_rows, "write_rows", broken)
    lab = lab.reconfigure()
    lab.commit_events("I4000@99")
    assert lab.merge().outcome == "merged"
    assert lab.rows() == {**rows, 4000: "I4000@99"}


def test_an_index_that_proves_wrong_stops_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab.make(tmp_path, options=OFF)
    grow(lab)
    right = look_up_keys

    def wrong(*asked: Any) -> Any:
        known = right(*asked)
        known.pos[3] += 1
        return known

    monkeypatch.setattr(move_rows, "look_up_keys", wrong)
    lab = lab.reconfigure()
    lab.commit_events("I4000@99")
    result = lab.try_merge()
    assert result.error is not None
    assert result.error.kind is Kind.CORRUPT
    assert "has no entry for row" in result.error.message


@pytest.mark.parametrize("with_compaction", [False, True])
def test_foreign_row_with_stale_events_is_not_overwritten_later(
    tmp_path: Path, with_compaction: bool
) -> None:
    lab = Lab.make(tmp_path, options=OFF)
    grow(lab)
    foreign.append(lab.mirror, [(5000, "theirs")])
    lab.commit_events("I6000@90")
    lab.merge()
    lab.commit_events("U5000@5 I6001@95")  # late, and loses
    lab.merge()
    if with_compaction:
        assert compacted(lab) is not None
    for path in (tmp_path / "warehouse").rglob("*.segment.puffin"):
        path.unlink()
    clear_file_caches()
    lab.commit_events("U5000@7")
    lab.merge()
    assert lab.rows()[5000] == "theirs"


def test_other_jobs_get_their_turn_between_two_commits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choose, "_MAX_FILES", FAN_IN)
    lab = Lab.make(tmp_path, options=OFF)
    for at in range(3 * FAN_IN):
        lab.commit_events(f"I{at}@{at + 1}")
        lab.merge()
    rested: list[float] = []
    monkeypatch.setattr("spark_job.worker.compact_table.sleep", rested.append)
    commits: list[float] = []
    right = RowDelta.commit

    def slow(delta: RowDelta) -> Any:
        began = time.monotonic()
        done = right(delta)
        commits.append(time.monotonic() - began)
        return done

    monkeypatch.setattr(RowDelta, "commit", slow)
    compact_table(lab.pipeline, lab.table, dry_run=False)
    assert len(commits) == len(rested) >= 3
    assert all(rest >= took for rest, took in zip(rested, commits, strict=True))
