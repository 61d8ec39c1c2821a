"""Merges rewrite small delete files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pyiceberg.manifest import ManifestContent

from spark_job.iceberg.live_files import live_files
from spark_job.pyiceberg_private.manifest_files import read_manifest_entries
from tests.lab.lab import Lab
from tests.lab.manifests import list_manifests
from tests.lab.referenced_files import referenced_files, stored_files


@pytest.mark.parametrize(("granularity", "max_files"), [(4, 12), (64, 45)])
@pytest.mark.parametrize("partitioning", ["", 'partition_by: ["bucket[2](id)"]'])
def test_many_small_merges_leave_few_delete_files_and_correct_rows(
    tmp_path: Path, partitioning: str, granularity: int, max_files: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one delete file per partition, and with a separate one per data file."""
    monkeypatch.setattr("spark_job.write.deletes._MAX_SEPARATE_FILES", granularity)
    options = 'table_properties: {icemirror.max-snapshots: "3", history.expire.min-snapshots-to-keep: "1"}'
    lab = Lab.make(tmp_path, options=f"{partitioning}\n{options}")
    expected: dict[int, str] = {}
    rng = np.random.default_rng(4)
    for number in range(1, 31):
        keys = sorted(int(key) for key in rng.choice(40, 9, replace=False))
        for key in keys:
            expected[key] = f"U{key}@{number}"
        deleted = keys[number % 9]
        del expected[deleted]
        lab.commit_events(" ".join(f"{'D' if key == deleted else 'U'}{key}@{number}" for key in keys))
        lab.merge()
    assert lab.rows() == expected
    head = lab.mirror.current_snapshot()
    assert head is not None
    manifests = list_manifests(lab.mirror.io, head.manifest_list)
    deletes = [
        entry.data_file
        for manifest in manifests
        if manifest.content is ManifestContent.DELETES
        for entry in read_manifest_entries(lab.mirror.io, manifest)
    ]
    assert len(deletes) <= max_files * (2 if partitioning else 1)
    summary = head.summary
    assert summary is not None
    assert summary["total-delete-files"] == str(len(deletes))
    rows = sum(file.record_count for file in deletes)
    assert summary["total-position-deletes"] == str(rows)
    assert sum(file.deleted_rows for file in live_files(lab.mirror.io, head).values()) <= rows
    assert stored_files(tmp_path / "warehouse") == referenced_files(lab.mirror)
