from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from icemirror.state.replay import Replay
from spark_job.adopt.adopt import adopt_table
from spark_job.explain.explain import explain_key
from spark_job.files.immutable import ReadOnce
from spark_job.iceberg import mirror as mirror_module
from spark_job.key_index import blocks
from spark_job.replays.replay import replay_step
from spark_job.runtime.engine import InProcess
from spark_job.verify.check import Options, verify_table
from tests.unit.merge.lab import Lab
from tests.unit.profiles.recording import NAMES, Recording, mirror_rows


def require_whole(lab: Lab) -> None:
    """`verify` finds no difference."""
    report = verify_table(lab.pipeline, lab.table, Options(deep=True))
    assert report.equal, report.findings


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shards", [1, 3])
def test_a_mirror_follows_commit_by_commit(tmp_path: Path, name: str, shards: int) -> None:
    told = Recording.load(name)
    lab = told.lab(tmp_path, engine=InProcess(shards))
    for rows in told.commits:
        lab.commit(told.file(rows))
        lab.merge()
        require_whole(lab)
    assert mirror_rows(lab, told.keys) == told.expected(lab)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shards", [1, 3])
def test_all_commits_in_one_slice_give_the_same(tmp_path: Path, name: str, shards: int) -> None:
    told = Recording.load(name)
    lab = told.lab(tmp_path, engine=InProcess(shards))
    for rows in told.commits:
        lab.commit(*(told.file([row]) for row in rows))
    assert len(lab.merge().slices) == 1
    assert mirror_rows(lab, told.keys) == told.expected(lab)
    require_whole(lab)


@pytest.mark.parametrize("name", NAMES)
def test_a_changelog_that_is_delivered_twice_gives_the_same(tmp_path: Path, name: str) -> None:
    told = Recording.load(name)
    lab = told.lab(tmp_path, tail="batch_size: 1\n")
    for rows in [*told.commits, *told.commits]:
        lab.commit(told.file(rows))
    lab.merge()
    assert mirror_rows(lab, told.keys) == told.expected(lab)
    require_whole(lab)


@pytest.mark.parametrize("name", NAMES)
def test_every_key_is_explained(tmp_path: Path, name: str) -> None:
    told = Recording.load(name)
    lab = told.lab(tmp_path)
    for rows in told.commits:
        lab.commit(told.file(rows))
    lab.merge()
    for row in (row for rows in told.commits for row in rows):
        key = json.dumps({name: row[name] for name in told.keys})
        report = explain_key(lab.pipeline, lab.table, key)
        assert report.equal, report.findings
        assert report.complete
        there = any(all(one[name] == row[name] for name in told.keys) for one in told.mirror)
        assert (report.row is not None) == there


@pytest.mark.parametrize("name", NAMES)
def test_a_table_is_adopted(tmp_path: Path, name: str) -> None:
    """The mirror's rows in a table of somebody else, which then follows the last commit again."""
    told = Recording.load(name)
    lab = told.lab(tmp_path)
    for rows in told.commits:
        lab.commit(told.file(rows))
    lab.merge()
    rows, schema = lab.mirror.scan().to_arrow(), lab.mirror.schema()
    lab.catalog.drop_table("lab.world")
    lab.catalog.create_table("lab.world", schema).append(rows)
    adopt_table(lab.pipeline, lab.table, "head", dry_run=False)
    lab.commit(told.file(told.commits[-1]))
    lab.merge()
    assert mirror_rows(lab, told.keys) == told.expected(lab)


@pytest.mark.parametrize("name", NAMES)
def test_a_mirror_is_rebuilt_from_all_of_it(tmp_path: Path, name: str) -> None:
    told = Recording.load(name)
    lab = told.lab(tmp_path, tail="batch_size: 1\n")
    for rows in told.commits:
        lab.commit(told.file(rows))
    lab.merge()
    lab.mirror.delete()  # by another writer
    asked, steps = Replay("full-1", 0.0, full=True), 0
    while True:
        step, steps = replay_step(lab.pipeline, lab.table, asked), steps + 1
        if step.done:
            break
        asked = replace(asked, progress=step.progress)
        assert steps < 50
    assert mirror_rows(lab, told.keys) == told.expected(lab)
    require_whole(lab)


@pytest.mark.parametrize("name", NAMES)
def test_a_lost_index_is_rebuilt(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "_directories", ReadOnce(0))
    monkeypatch.setattr(mirror_module, "_roots", ReadOnce(0))
    told = Recording.load(name)
    lab = told.lab(tmp_path)
    for rows in told.commits:
        lab.commit(told.file(rows))
        lab.merge()
    for path in lab.folder.rglob("*.puffin"):
        path.unlink()
    lab.commit(told.file(told.commits[-1]))
    lab.merge()
    assert mirror_rows(lab, told.keys) == told.expected(lab)
    require_whole(lab)
