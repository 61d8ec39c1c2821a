"""Orphan clean-up during a rebuild: no snapshot references the staged files yet, but they must stay."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from pyiceberg.io import FileIO
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata

from icemirror.errors import Transient
from spark_job.iceberg.stage_file import StageFile, read_stage_file
from spark_job.maintenance import orphans
from spark_job.maintenance.orphans import clean_orphans
from spark_job.rebuild.replay import replay_step
from tests.lab.lab import Lab
from tests.lab.rebuilds import FULL, ROWS, make, run_rebuild


def _age(lab: Lab, keep: str = "-") -> None:
    """Make all files one hour old, except those whose name ends with `keep`."""
    for path in (lab.folder / "warehouse").rglob("*.*"):
        if path.is_file() and not path.name.endswith(keep):
            os.utime(path, (path.stat().st_mtime - 3600,) * 2)


def test_files_of_an_active_stage_are_kept_and_of_an_idle_stage_deleted(tmp_path: Path) -> None:
    lab = make(tmp_path)
    step = replay_step(lab.pipeline, lab.table, FULL)
    before = lab.files_on_disk()
    _age(lab, keep=".stage.metadata.json")
    active = clean_orphans(lambda: lab.mirror, "lab.world", older_than_seconds=600)
    assert (active.files, lab.files_on_disk()) == (0, before)
    _age(lab)
    idle = clean_orphans(lambda: lab.mirror, "lab.world", older_than_seconds=600)
    assert idle.files > 0
    run_rebuild(lab, request=replace(FULL, progress=step.progress))
    assert lab.rows() == ROWS


@pytest.mark.parametrize("swap_at_load", [1, 2])
def test_files_swapped_in_during_the_clean_up_are_kept(tmp_path: Path, swap_at_load: int) -> None:
    """The swap deletes the stage file, and the staged files are older than the limit: the rebuild took that long."""
    lab = make(tmp_path)
    request = FULL
    while (step := replay_step(lab.pipeline, lab.table, request)).progress.events < step.progress.of_events:
        request = replace(FULL, progress=step.progress)
    request = replace(FULL, progress=step.progress)
    _age(lab, keep=".stage.metadata.json")
    loaded: list[Table] = []

    def load() -> Table:
        loaded.append(lab.mirror)
        if len(loaded) == swap_at_load:
            assert replay_step(lab.pipeline, lab.table, request).rebuilt
        return loaded[-1]

    clean_orphans(load, "lab.world", older_than_seconds=600)
    assert len(loaded) == 2
    assert lab.rows() == ROWS


def test_stage_that_advances_during_the_clean_up_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = make(tmp_path)
    steps = [replay_step(lab.pipeline, lab.table, FULL)]
    _age(lab, keep=".stage.metadata.json")

    def read(io: FileIO, path: str) -> tuple[StageFile, TableMetadata]:
        if len(steps) == 1:
            for _ in range(2):  # the second step deletes the stage file before the one of the first step
                steps.append(replay_step(lab.pipeline, lab.table, replace(FULL, progress=steps[-1].progress)))
            _age(lab, keep=".stage.metadata.json")
        return read_stage_file(io, path)

    monkeypatch.setattr(orphans, "read_stage_file", read)
    assert clean_orphans(lambda: lab.mirror, "lab.world", older_than_seconds=600).files == 0
    assert run_rebuild(lab, request=replace(FULL, progress=steps[-1].progress))[-1].rebuilt


def test_clean_up_deletes_nothing_if_a_stage_is_unreadable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = make(tmp_path)
    replay_step(lab.pipeline, lab.table, FULL)
    (stage,) = (lab.folder / "warehouse").rglob("*.stage.metadata.json")
    stage.write_text(stage.read_text().replace('"version":1', '"version":2', 1))
    monkeypatch.setattr(orphans, "sleep", lambda _: None)
    with pytest.raises(Transient, match=r"nothing was deleted.*newer icemirror"):
        clean_orphans(lambda: lab.mirror, "lab.world", older_than_seconds=600)
