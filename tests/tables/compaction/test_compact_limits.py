"""Compaction stays within its limits, does not fail merges, and skips only the files that it cannot compact."""

from __future__ import annotations

import secrets
import time
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import schema_to_pyarrow

from icemirror.errors import Kind
from spark_job.commands.compact_table import compact_table
from spark_job.commit.row_delta import RowDelta
from spark_job.iceberg.live_files import live_files
from spark_job.maintenance import choose_files, move_rows
from spark_job.maintenance.choose_files import FAN_IN
from spark_job.merge.locate import read_key_entries
from spark_job.storage.file_cache import clear_file_caches
from spark_job.write.data_files import write_rows
from tests.lab import foreign
from tests.lab.compaction import OFF, assert_sound, data_files, grow, run_compaction
from tests.lab.lab import ID_AND_NAME, Lab, local_path, sequence_text

MB = 1 << 20


def merge_rows(lab: Lab, first: int, names: pa.Array) -> None:
    """Merge new rows with these names."""
    ids = np.arange(first, first + len(names))
    rows = pa.table(
        {
            "id": ids,
            "name": names,
            "cdc_operation": ["INSERT"] * len(ids),
            "sequence_number": [sequence_text(int(key) + 1) for key in ids],
        }
    )
    lab.commit(rows.cast(schema_to_pyarrow(ID_AND_NAME)))
    lab.merge()


def add_heavy_files(lab: Lab, files: int, rows: int = 4000) -> None:
    """Merge files of a few kilobytes whose rows take 16 MB of memory each."""
    texts = pa.array(["x" * 4000, "y" * 4000])
    for at in range(files):
        names = pa.DictionaryArray.from_arrays(pa.array(np.arange(rows) % 2), texts).cast(pa.large_string())
        merge_rows(lab, at * rows, names)


class PeakMemory:
    """Measures the peak of the bytes that Arrow allocates in the block."""

    def __enter__(self) -> PeakMemory:
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


def test_memory_for_all_files_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab.make(tmp_path, options=OFF)
    add_heavy_files(lab, 12)
    monkeypatch.setattr(move_rows, "MAX_BYTES", 24 * MB)
    before = lab.files_on_disk()
    with PeakMemory() as peak:
        assert run_compaction(lab) is None
    assert peak.bytes < 80 * MB, f"{peak.bytes >> 20} MB; the rows of all files take 192 MB"
    assert lab.files_on_disk() == before


def test_fewer_files_are_compacted_if_all_exceed_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab.make(tmp_path, options=OFF)
    rows = grow(lab, 3 * FAN_IN)
    monkeypatch.setattr(move_rows, "MAX_BYTES", 600)
    result = run_compaction(lab)
    assert result is not None
    assert result.files_before == FAN_IN
    assert lab.rows() == rows


def test_heavy_group_does_not_block_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab.make(tmp_path, options=OFF)
    add_heavy_files(lab, FAN_IN)
    for at in range(FAN_IN):
        lab.commit_events(f"I{10**7 + at}@{10**7 + at}")
        lab.merge()
    monkeypatch.setattr(move_rows, "MAX_BYTES", 24 * MB)
    result = compact_table(lab.pipeline, lab.table, dry_run=False)
    assert (result.files_before, result.files_after, result.left) == (FAN_IN, 1, FAN_IN)

    def refuse(*_arguments: object) -> None:
        raise AssertionError("skipped files were read again")

    monkeypatch.setattr("spark_job.maintenance.compact.move_rows", refuse)
    assert run_compaction(lab) is None


def test_skipped_files_of_another_table_are_not_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = tmp_path / "heavy", tmp_path / "light"
    for folder in folders:
        folder.mkdir()
    heavy, light = (Lab.make(folder, options=OFF) for folder in folders)
    for lab in (heavy, light):
        grow(lab)
    pipeline = replace(light.pipeline, skipped_files=heavy.pipeline.skipped_files)
    with monkeypatch.context() as patch:
        patch.setattr(move_rows, "MAX_BYTES", 0)
        assert compact_table(heavy.pipeline, heavy.table, dry_run=False).left == FAN_IN
    result = compact_table(pipeline, light.table, dry_run=False)
    assert (result.files_before, result.left) == (FAN_IN, 0)


def test_damaged_file_blocks_only_its_partition(tmp_path: Path) -> None:
    partitions = 'partition_by: ["truncate[1000](id)"]'
    lab = Lab.make(tmp_path, options=f"{OFF}\n{partitions}")
    for at in range(FAN_IN):
        lab.commit_events(
            " ".join(f"I{1000 * partition + at}@{10 * at + partition + 1}" for partition in range(4))
        )
        lab.merge()
    live = live_files(lab.mirror.io, lab.mirror.current_snapshot())
    damaged = local_path(next(path for path, file in live.items() if file.partition[0] == 0))
    damaged.write_bytes(damaged.read_bytes()[:-9])
    clear_file_caches()
    lab = lab.reconfigure(partitions)
    lab.commit_events("I3999@1000")
    assert lab.merge().outcome == "merged"
    assert data_files(lab) == FAN_IN + 3, "one for each other partition"


@pytest.mark.parametrize("target", [4 << 10, 32 << 10])
def test_files_of_the_target_size_are_not_compacted(tmp_path: Path, target: int) -> None:
    options = f'{OFF}\ntable_properties: {{write.target-file-size-bytes: "{target}"}}'
    lab = Lab.make(tmp_path, options=options)
    for at in range(FAN_IN + 1):
        merge_rows(lab, at * 200, pa.array([secrets.token_hex(60) for _ in range(200)]))
    result = compact_table(lab.pipeline, lab.table, dry_run=False)
    assert result.commits == 0
    assert compact_table(lab.pipeline, lab.table, dry_run=True).files_before == 0


def test_compaction_that_does_not_reduce_the_files_is_discarded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab.make(tmp_path, options=OFF)
    rows = grow(lab)
    original = write_rows
    before = lab.files_on_disk()

    def write_one_file_per_row(io: Any, metadata: Any, table: pa.Table, written: list[str]) -> Any:
        results = [original(io, metadata, table.slice(at, 1), written) for at in range(table.num_rows)]
        count = np.arange(table.num_rows)
        files = tuple(file for result in results for file in result.files)
        return type(results[0])(files, count.astype(np.int32), np.zeros_like(count))

    monkeypatch.setattr(move_rows, "write_rows", write_one_file_per_row)
    assert run_compaction(lab) is None
    assert lab.files_on_disk() == before
    assert lab.rows() == rows


def test_empty_files_are_compacted_with_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose_files, "_MAX_FILES", 10)
    lab = Lab.make(tmp_path, options=OFF)
    for at in range(16):
        lab.commit_events(f"I{at}@{at + 1}")
        lab.merge()
    lab.commit_events(" ".join(f"D{at}@{100 + at}" for at in range(12)))
    lab.merge()
    result = compact_table(lab.pipeline, lab.table, dry_run=False)
    assert result.commits > 0
    assert data_files(lab) < FAN_IN
    assert set(lab.rows()) == {12, 13, 14, 15}
    assert_sound(lab)


def test_unexpected_compaction_error_does_not_fail_the_merge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab.make(tmp_path, options=OFF)
    rows = grow(lab)

    def fail(*_arguments: object) -> None:
        raise RuntimeError("cannot start a thread")

    monkeypatch.setattr(move_rows, "write_rows", fail)
    lab = lab.reconfigure()
    lab.commit_events("I4000@99")
    assert lab.merge().outcome == "merged"
    assert lab.rows() == {**rows, 4000: "I4000@99"}


def test_wrong_location_in_the_index_blocks_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab.make(tmp_path, options=OFF)
    grow(lab)
    original = read_key_entries

    def with_wrong_position(*arguments: Any) -> Any:
        locations = original(*arguments)
        locations.pos[3] += 1
        return locations

    monkeypatch.setattr(move_rows, "read_key_entries", with_wrong_position)
    lab = lab.reconfigure()
    lab.commit_events("I4000@99")
    result = lab.try_merge()
    assert result.error is not None
    assert result.error.kind is Kind.CORRUPT
    assert "points elsewhere than at row" in result.error.message


@pytest.mark.parametrize("with_compaction", [False, True])
def test_foreign_row_with_stale_events_is_not_overwritten_later(
    tmp_path: Path, with_compaction: bool
) -> None:
    lab = Lab.make(tmp_path, options=OFF)
    grow(lab)
    foreign.append(lab.mirror, [(5000, "theirs")])
    lab.commit_events("I6000@90")
    lab.merge()
    lab.commit_events("U5000@5 I6001@95")  # U5000 is late and stale
    lab.merge()
    if with_compaction:
        assert run_compaction(lab) is not None
    for path in (tmp_path / "warehouse").rglob("*.segment.puffin"):
        path.unlink()
    clear_file_caches()
    lab.commit_events("U5000@7")
    lab.merge()
    assert lab.rows()[5000] == "theirs"


def test_compaction_pauses_between_commits_for_other_jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choose_files, "_MAX_FILES", FAN_IN)
    lab = Lab.make(tmp_path, options=OFF)
    for at in range(3 * FAN_IN):
        lab.commit_events(f"I{at}@{at + 1}")
        lab.merge()
    pauses: list[float] = []
    monkeypatch.setattr("spark_job.commands.compact_table.sleep", pauses.append)
    commits: list[float] = []
    original = RowDelta.commit

    def timed_commit(delta: RowDelta) -> Any:
        began = time.monotonic()
        result = original(delta)
        commits.append(time.monotonic() - began)
        return result

    monkeypatch.setattr(RowDelta, "commit", timed_commit)
    compact_table(lab.pipeline, lab.table, dry_run=False)
    assert len(commits) == len(pauses) >= 3
    assert all(pause >= duration for pause, duration in zip(pauses, commits, strict=True))
