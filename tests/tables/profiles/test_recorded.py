from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from icemirror.protocol.replay import Replay
from spark_job.commands.adopt.adopt_table import adopt_table
from spark_job.commands.explain.explain_key import explain_key
from spark_job.commands.verify.verify_table import VerifyOptions, verify_table
from spark_job.engine.engine import InProcessEngine
from spark_job.iceberg import mirror as mirror_module
from spark_job.index import blocks
from spark_job.rebuild.replay import replay_step
from spark_job.storage.file_cache import FileCache
from tests.lab.lab import Lab
from tests.tables.profiles.recording import NAMES, Recording, mirror_rows


def require_verified(lab: Lab) -> None:
    """Check that `verify` finds no difference."""
    report = verify_table(lab.pipeline, lab.table, VerifyOptions(deep=True))
    assert report.equal, report.findings


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shards", [1, 3])
def test_mirror_is_correct_when_every_commit_is_merged_separately(
    tmp_path: Path, name: str, shards: int
) -> None:
    recording = Recording.load(name)
    lab = recording.lab(tmp_path, engine=InProcessEngine(shards))
    for rows in recording.commits:
        lab.commit(recording.file(rows))
        lab.merge()
        require_verified(lab)
    assert mirror_rows(lab, recording.keys) == recording.expected(lab)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shards", [1, 3])
def test_all_commits_in_one_slice_give_the_same_mirror(tmp_path: Path, name: str, shards: int) -> None:
    recording = Recording.load(name)
    lab = recording.lab(tmp_path, engine=InProcessEngine(shards))
    for rows in recording.commits:
        lab.commit(*(recording.file([row]) for row in rows))
    assert len(lab.merge().slices) == 1
    assert mirror_rows(lab, recording.keys) == recording.expected(lab)
    require_verified(lab)


@pytest.mark.parametrize("name", NAMES)
def test_changelog_delivered_twice_gives_the_same_mirror(tmp_path: Path, name: str) -> None:
    recording = Recording.load(name)
    lab = recording.lab(tmp_path, extra_config="batch_size: 1\n")
    for rows in [*recording.commits, *recording.commits]:
        lab.commit(recording.file(rows))
    lab.merge()
    assert mirror_rows(lab, recording.keys) == recording.expected(lab)
    require_verified(lab)


@pytest.mark.parametrize("name", NAMES)
def test_every_key_is_explained(tmp_path: Path, name: str) -> None:
    recording = Recording.load(name)
    lab = recording.lab(tmp_path)
    for rows in recording.commits:
        lab.commit(recording.file(rows))
    lab.merge()
    for row in (row for rows in recording.commits for row in rows):
        key = json.dumps({name: row[name] for name in recording.keys})
        report = explain_key(lab.pipeline, lab.table, key)
        assert report.equal, report.findings
        assert report.complete
        is_expected = any(
            all(expected[name] == row[name] for name in recording.keys) for expected in recording.mirror
        )
        assert (report.row is not None) == is_expected


@pytest.mark.parametrize("name", NAMES)
def test_copy_of_the_mirror_is_adopted(tmp_path: Path, name: str) -> None:
    """The adopted copy then merges the last commit again."""
    recording = Recording.load(name)
    lab = recording.lab(tmp_path)
    for rows in recording.commits:
        lab.commit(recording.file(rows))
    lab.merge()
    rows, schema = lab.mirror.scan().to_arrow(), lab.mirror.schema()
    lab.catalog.drop_table("lab.world")
    lab.catalog.create_table("lab.world", schema).append(rows)
    adopt_table(lab.pipeline, lab.table, "head", dry_run=False)
    lab.commit(recording.file(recording.commits[-1]))
    lab.merge()
    assert mirror_rows(lab, recording.keys) == recording.expected(lab)


@pytest.mark.parametrize("name", NAMES)
def test_mirror_is_rebuilt_from_the_whole_changelog(tmp_path: Path, name: str) -> None:
    recording = Recording.load(name)
    lab = recording.lab(tmp_path, extra_config="batch_size: 1\n")
    for rows in recording.commits:
        lab.commit(recording.file(rows))
    lab.merge()
    lab.mirror.delete()  # by another writer
    replay, steps = Replay("full-1", 0.0, full=True), 0
    while True:
        step, steps = replay_step(lab.pipeline, lab.table, replay), steps + 1
        if step.done:
            break
        replay = replace(replay, progress=step.progress)
        assert steps < 50
    assert mirror_rows(lab, recording.keys) == recording.expected(lab)
    require_verified(lab)


@pytest.mark.parametrize("name", NAMES)
def test_lost_index_is_rebuilt(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "_directories", FileCache(0))
    monkeypatch.setattr(mirror_module, "_roots", FileCache(0))
    recording = Recording.load(name)
    lab = recording.lab(tmp_path)
    for rows in recording.commits:
        lab.commit(recording.file(rows))
        lab.merge()
    for path in lab.folder.rglob("*.puffin"):
        path.unlink()
    lab.commit(recording.file(recording.commits[-1]))
    lab.merge()
    assert mirror_rows(lab, recording.keys) == recording.expected(lab)
    require_verified(lab)
