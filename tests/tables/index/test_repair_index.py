"""`maintain index` repairs the index without merging events."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from icemirror.cli.main import run
from icemirror.errors import Invalid
from spark_job.commands.maintain_index import maintain_index
from spark_job.commands.verify.verify_table import VerifyOptions, verify_table
from spark_job.commit.ensure_mirror import ensure_mirror
from spark_job.iceberg.mirror import read_mirror
from spark_job.iceberg.property_names import PROPERTY_CURSOR
from spark_job.index import tiers
from spark_job.index.root import Root
from spark_job.storage.file_cache import clear_file_caches
from tests.lab import foreign
from tests.lab.lab import Lab, local_path
from tests.lab.manifests import list_manifests
from tests.lab.recreated_changelog import recreate_changelog
from tests.lab.samples import commit_snapshot


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    lab = Lab.make(tmp_path)
    for at in range(1, 4):
        lab.commit_events(f"I{at}@{at} I{at + 10}@{at}")
        lab.merge()
    return lab


def root(lab: Lab) -> Root:
    current = read_mirror(lab.mirror, "lab.world").root
    assert current is not None
    return current


def summary(lab: Lab) -> dict[str, str]:
    head = lab.mirror.current_snapshot()
    assert head is not None
    assert head.summary is not None
    return head.summary.additional_properties


def assert_sound(lab: Lab) -> None:
    report = verify_table(lab.pipeline, lab.table, VerifyOptions(deep=True))
    assert report.equal, report.findings


def test_sound_index_is_unchanged(lab: Lab) -> None:
    before = lab.files_on_disk()
    result = maintain_index(lab.pipeline, lab.table, dry_run=False)
    assert (result.segments, result.damaged, result.lost, result.behind, result.commits) == (
        3,
        0,
        False,
        False,
        0,
    )
    assert lab.files_on_disk() == before


@pytest.mark.parametrize("damage", ["missing", "cut", "flipped"])
def test_damaged_segments_are_rebuilt(lab: Lab, damage: str) -> None:
    rows, cursor = lab.rows(), summary(lab)[PROPERTY_CURSOR]
    for segment in root(lab).segments[1:3]:
        path = local_path(segment.path)
        content = path.read_bytes()
        if damage == "missing":
            path.unlink()
        elif damage == "cut":
            path.write_bytes(content[: len(content) // 2])
        else:
            at = segment.payload.offset + 5
            path.write_bytes(content[:at] + bytes([content[at] ^ 0xFF]) + content[at + 1 :])
    clear_file_caches()
    preview = maintain_index(lab.pipeline, lab.table, dry_run=True)
    assert (preview.damaged, preview.commits) == (2, 0)
    result = maintain_index(lab.pipeline, lab.table, dry_run=False)
    assert (result.damaged, result.commits) == (2, 1)
    assert summary(lab)[PROPERTY_CURSOR] == cursor
    assert_sound(lab)
    lab.commit_events("U2@1 U3@99")  # a late event and a new one
    lab.merge()
    assert lab.rows() == {**rows, 3: "U3@99"}
    assert maintain_index(lab.pipeline, lab.table, dry_run=True).damaged == 0


def test_lost_root_is_rebuilt(lab: Lab) -> None:
    path = read_mirror(lab.mirror, "lab.world").root_path
    assert path is not None
    local_path(path).unlink()
    clear_file_caches()
    assert maintain_index(lab.pipeline, lab.table, dry_run=True).lost
    assert maintain_index(lab.pipeline, lab.table, dry_run=False).commits == 1
    assert_sound(lab)


def test_foreign_writes_are_indexed(lab: Lab) -> None:
    foreign.append(lab.mirror, [(77, "theirs")])
    assert maintain_index(lab.pipeline, lab.table, dry_run=True).behind
    assert maintain_index(lab.pipeline, lab.table, dry_run=False).commits == 1
    lab.commit_events("U77@99")
    lab.merge()
    assert lab.rows()[77] == "U77@99"


@pytest.mark.parametrize("change", ["file removed", "no change"])
def test_foreign_commits_without_new_rows_are_indexed(lab: Lab, change: str) -> None:
    if change == "file removed":
        lab.mirror.delete("id in (1, 11)")
    else:
        mirror = lab.mirror
        head = mirror.current_snapshot()
        assert head is not None
        commit_snapshot(mirror, "replace", list_manifests(mirror.io, head.manifest_list), 77)
    assert maintain_index(lab.pipeline, lab.table, dry_run=True).behind
    result = maintain_index(lab.pipeline, lab.table, dry_run=False)
    assert result.commits == 1
    assert not maintain_index(lab.pipeline, lab.table, dry_run=True).behind


def test_empty_mirror_needs_no_repair(tmp_path: Path) -> None:
    lab = Lab.make(tmp_path)
    lab.commit_events("I1@1")
    table_plan = lab.pipeline.planner.require_plan(lab.table)
    ensure_mirror(lab.pipeline.catalogs, table_plan)
    result = maintain_index(lab.pipeline, lab.table, dry_run=False)
    assert (result.segments, result.commits, result.waits) == (0, 0, False)


def test_due_runs_are_merged(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "FAN_IN", 3)
    result = maintain_index(lab.pipeline, lab.table, dry_run=False)
    assert result.runs_before == 3
    assert result.runs_after < 3
    assert result.commits >= 1
    assert_sound(lab)


def test_command_repairs_a_segment_and_prints_json(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ICEMIRROR_CONFIG", str(lab.settings.source_path))
    local_path(root(lab).segments[0].path).unlink()
    clear_file_caches()
    assert run(["maintain", "index", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["action"], report["damaged"], report["commits"]) == ("index", 1, 1)
    assert run(["maintain", "index"]) == 0
    assert "segments checked" in capsys.readouterr().out


def test_table_without_a_mirror_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lab = Lab.make(tmp_path)
    monkeypatch.setenv("ICEMIRROR_CONFIG", str(lab.settings.source_path))
    assert run(["maintain", "-t", "lab.world", "index"]) == 3
    assert "there is no mirror yet" in capsys.readouterr().err


def test_recreated_changelog_is_an_error_and_changes_nothing(lab: Lab) -> None:
    recreated = recreate_changelog(lab)
    before = recreated.mirror.metadata_location
    with pytest.raises(Invalid, match="was dropped and recreated"):
        maintain_index(recreated.pipeline, recreated.table, dry_run=False)
    assert recreated.mirror.metadata_location == before
