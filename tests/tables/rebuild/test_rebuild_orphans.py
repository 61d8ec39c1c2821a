"""Orphans are cleaned up beside a rebuild: what it has staged belongs to nobody yet, and must stay."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from pyiceberg.io import FileIO
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata

from icemirror.errors import Transient
from spark_job.iceberg.stage import StageFile, read_stage
from spark_job.maintenance import orphans
from spark_job.maintenance.orphans import clean_orphans
from spark_job.rebuild.replay import replay_step
from tests.lab.lab import Lab
from tests.tables.rebuild.test_rebuild import FULL, ROWS, make, rebuilt


def _age(lab: Lab, keep: str = "-") -> None:
    """All files but some become an hour old."""
    for path in (lab.folder / "warehouse").rglob("*.*"):
        if path.is_file() and not path.name.endswith(keep):
            os.utime(path, (path.stat().st_mtime - 3600,) * 2)


def test_files_of_a_stage_at_work_are_no_orphans_and_those_of_one_at_rest_are(tmp_path: Path) -> None:
    lab = make(tmp_path)
    one = replay_step(lab.pipeline, lab.table, FULL)
    before = lab.files_on_disk()
    _age(lab, keep=".stage.metadata.json")
    kept = clean_orphans(lambda: lab.mirror, "lab.world", older_than_seconds=600)
    assert (kept.files, lab.files_on_disk()) == (0, before)
    _age(lab)
    gone = clean_orphans(lambda: lab.mirror, "lab.world", older_than_seconds=600)
    assert gone.files > 0
    rebuilt(lab, asked=replace(FULL, progress=one.progress))
    assert lab.rows() == ROWS


@pytest.mark.parametrize("looks", [1, 2])
def test_what_is_swapped_in_while_orphans_are_looked_for_is_kept(tmp_path: Path, looks: int) -> None:
    """Its stage is tidied up, and its files are older than the bound: the rebuild took that long."""
    lab = make(tmp_path)
    asked = FULL
    while (step := replay_step(lab.pipeline, lab.table, asked)).progress.events < step.progress.of_events:
        asked = replace(FULL, progress=step.progress)
    asked = replace(FULL, progress=step.progress)
    _age(lab, keep=".stage.metadata.json")
    loaded: list[Table] = []

    def load() -> Table:
        loaded.append(lab.mirror)
        if len(loaded) == looks:
            assert replay_step(lab.pipeline, lab.table, asked).rebuilt
        return loaded[-1]

    clean_orphans(load, "lab.world", older_than_seconds=600)
    assert len(loaded) == 2
    assert lab.rows() == ROWS


def test_a_stage_that_moves_on_while_it_is_looked_for_is_looked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = make(tmp_path)
    steps = [replay_step(lab.pipeline, lab.table, FULL)]
    _age(lab, keep=".stage.metadata.json")

    def read(io: FileIO, path: str) -> tuple[StageFile, TableMetadata]:
        if len(steps) == 1:
            for _ in range(2):  # the second one discards the file that the first one followed
                steps.append(replay_step(lab.pipeline, lab.table, replace(FULL, progress=steps[-1].progress)))
            _age(lab, keep=".stage.metadata.json")
        return read_stage(io, path)

    monkeypatch.setattr(orphans, "read_stage", read)
    assert clean_orphans(lambda: lab.mirror, "lab.world", older_than_seconds=600).files == 0
    assert rebuilt(lab, asked=replace(FULL, progress=steps[-1].progress))[-1].rebuilt


def test_orphans_are_kept_beside_a_stage_that_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = make(tmp_path)
    replay_step(lab.pipeline, lab.table, FULL)
    (stage,) = (lab.folder / "warehouse").rglob("*.stage.metadata.json")
    stage.write_text(stage.read_text().replace('"version":1', '"version":2', 1))
    monkeypatch.setattr(orphans, "sleep", lambda _: None)
    with pytest.raises(Transient, match=r"nothing was deleted.*newer icemirror"):
        clean_orphans(lambda: lab.mirror, "lab.world", older_than_seconds=600)
