"""`icemirror plan` shows what `icemirror merge` would do, with the same exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyiceberg.types import LongType

from icemirror.cli.main import run
from icemirror.errors import Invalid
from spark_job.commit.ensure_mirror import ensure_mirror
from tests.lab.lab import Lab


def plan(folder: Path, capfd: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Run `icemirror plan`. Return its exit code and its output on one line."""
    code = run(["plan", "-c", str(folder / "icemirror.yaml")])
    return code, " ".join(capfd.readouterr().out.split())


def test_empty_changelog_has_nothing_to_do(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    lab = Lab.make(tmp_path)
    code, shown = plan(tmp_path, capfd)
    assert (code, "lab.world nothing" in shown) == (0, True)
    assert lab.merge().outcome == "up-to-date"
    lab.commit_events("I1@1")
    assert "lab.world creates the mirror" in plan(tmp_path, capfd)[1]


def test_changed_schema_is_shown_before_it_is_applied(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    lab = Lab.make(tmp_path)
    lab.commit_events("I1@1")
    lab.merge()
    with lab.changelog.update_schema() as update:
        update.add_column("more", LongType())
    code, shown = plan(tmp_path, capfd)
    expected = "nothing; the next events will change the mirror: new column more (long)"
    assert (code, expected in shown) == (0, True)
    lab.commit_events("I2@2")
    code, shown = plan(tmp_path, capfd)
    assert (code, "lab.world merges, and changes the mirror: new column more (long)" in shown) == (0, True)
    assert lab.mirror.schema().column_names == ["id", "name"]
    lab.merge()
    assert lab.mirror.schema().column_names == ["id", "name", "more"]
    code, shown = plan(tmp_path, capfd)
    assert (code, "lab.world nothing" in shown) == (0, True)


def test_changed_schema_stops_a_strict_merge_only_if_events_wait(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    lab = Lab.make(tmp_path, options="schema_policy: strict")
    lab.commit_events("I1@1")
    lab.merge()
    with lab.changelog.update_schema() as update:
        update.add_column("more", LongType())
    code, shown = plan(tmp_path, capfd)
    assert (code, "nothing; the next events will be blocked: new column more" in shown) == (0, True)
    assert lab.try_merge().outcome == "up-to-date"
    lab.commit_events("I2@2")
    code, shown = plan(tmp_path, capfd)
    assert (code, "lab.world blocked: new column more" in shown) == (3, True)
    assert lab.try_merge().outcome == "failed"


def test_stop_without_a_schema_change_states_its_reason(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    lab = Lab.make(tmp_path, options="delete_mode: soft")
    lab.commit_events("I1@1 D1@2")
    lab.merge()
    lab.reconfigure()
    assert run(["plan", "-c", str(tmp_path / "icemirror.yaml")]) == 0
    shown = " ".join(capfd.readouterr().out.split())
    assert "the next events will be blocked: lab.world: was merged with delete_mode: soft" in shown
    lab.commit_events("I2@2")
    assert run(["plan", "-c", str(tmp_path / "icemirror.yaml")]) == 3
    printed = capfd.readouterr()
    assert "blocked:  " not in printed.out
    assert "error: lab.world: was merged with delete_mode: soft" in " ".join(printed.err.split())


def test_unreachable_catalog_is_reported_for_each_table(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "icemirror.yaml"
    config.write_text(
        f"iceberg: {{catalog: {{type: sql, uri: 'sqlite:///{tmp_path}/none.db', warehouse: 'file://{tmp_path}'}}}}\n"
        "tables: [{changelog: raw.o, mirror: shop.o}, {changelog: raw.p, mirror: shop.p}]\n"
    )
    assert run(["plan", "-c", str(config)]) == 4
    lines = capfd.readouterr().err.splitlines()
    assert [line.split(": ")[1] for line in lines] == ["shop.o", "shop.p"]


def test_missing_driver_is_bad_configuration(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "icemirror.yaml"
    config.write_text(
        "iceberg: {catalog: {type: sql, uri: 'oracle+oracledb://host/name'}}\n"
        "tables: [{changelog: raw.o, mirror: shop.o}]\n"
    )
    for command in ("plan", "merge"):
        assert run([command, "-c", str(config)]) == 2
        assert "pip install 'oracledb'" in capfd.readouterr().err


def test_missing_catalog_is_not_created(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "icemirror.yaml"
    config.write_text(
        f"iceberg: {{catalog: {{type: sql, uri: 'sqlite:///{tmp_path}/typo.db'}}}}\n"
        "tables: [{changelog: raw.o, mirror: shop.o}]\n"
    )
    assert run(["plan", "--json", "-c", str(config)]) == 4
    report = json.loads(capfd.readouterr().out)
    assert f"correct the catalog's uri. File: {tmp_path}/typo.db" in report["error"]["message"]
    assert not (tmp_path / "typo.db").exists()


def test_failed_merge_is_logged_with_its_kind_and_traceback(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lab = Lab.make(tmp_path).reconfigure("primary_keys: [nothing]")
    lab.try_merge()
    (record,) = [record for record in caplog.records if record.getMessage() == "merge failed"]
    assert record.exc_info is not None


def test_merge_of_a_paused_table_prints_a_note(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    Lab.make(tmp_path)  # no events, so the merge starts no Spark
    config = ["-c", str(tmp_path / "icemirror.yaml")]
    assert run(["merge", *config]) == 0
    assert "paused" not in capfd.readouterr().err
    assert run(["pause", "-t", "lab.world", *config]) == 0
    assert run(["merge", *config]) == 0
    assert "lab.world: paused for the trigger; merging it anyway" in capfd.readouterr().err


def test_empty_mirror_of_a_failed_first_merge_is_filled(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    lab = Lab.make(tmp_path)
    lab.commit_events("I1@1")
    lab.merge()
    lab.catalog.drop_table("lab.world")
    table_plan = lab.pipeline.planner.require_plan(lab.table)
    ensure_mirror(lab.pipeline.catalogs, table_plan)
    assert "lab.world fills the empty mirror 1 1" in plan(tmp_path, capfd)[1]
    assert lab.merge().live_rows == 1


def test_relative_catalog_path_is_reported_as_absolute(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "icemirror.yaml").write_text(
        "iceberg: {catalog: {type: sql, uri: 'sqlite:///data/typo.db'}}\n"
        "tables: [{changelog: raw.o, mirror: shop.o}]\n"
    )
    assert run(["plan"]) == 4
    assert (
        f"(an absolute path has four slashes, sqlite:////). File: {tmp_path}/data/typo.db"
        in capfd.readouterr().err
    )


def test_table_named_twice_is_planned_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    Lab.make(tmp_path)
    both = ["-t", "lab.world", "-t", "lab.world_changelog"]
    assert run(["plan", "--json", *both, "-c", str(tmp_path / "icemirror.yaml")]) == 0
    assert len(capfd.readouterr().out.splitlines()) == 1


def test_recreated_changelog_is_planned_and_merged_as_a_rebuild(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    lab = Lab.make(tmp_path)
    lab.commit_events("I1@1 I2@1")
    lab.merge()
    lab.catalog.drop_table("lab.world_changelog")
    lab.changelog = lab.catalog.create_table("lab.world_changelog", lab.changelog.schema())
    lab.commit_events("I3@1")
    code, shown = plan(tmp_path, capfd)
    assert (code, "lab.world rebuilds the mirror" in shown) == (0, True)
    assert lab.rows().keys() == {1, 2}
    assert run(["merge", "--json", "-c", str(tmp_path / "icemirror.yaml")]) == 0
    result = json.loads(capfd.readouterr().out)
    assert (result["outcome"], result["live_rows"], result["slices"]) == ("rebuilt", 1, [])
    assert lab.rows().keys() == {3}
    assert "lab.world nothing" in plan(tmp_path, capfd)[1]


@pytest.mark.parametrize(
    ("options", "setting"),
    [
        ("delete_mode: soft\ndeleted_column: name", "deleted_column"),
        ("metadata_columns: {synced_at: name}", "metadata_columns.synced_at"),
    ],
)
def test_added_column_that_the_changelog_has_is_refused_before_the_mirror_is_created(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], options: str, setting: str
) -> None:
    lab = Lab.make(tmp_path, options=options)
    lab.commit_events("I1@1")
    assert run(["plan", "-c", str(tmp_path / "icemirror.yaml")]) == 3
    shown = capfd.readouterr()
    assert shown.err == (
        "error: lab.world: the changelog already has a column name, so icemirror cannot add one of that name; "
        f"nothing was merged. Set {setting} to another name. Changelog: lab.world_changelog.\n"
    )
    with pytest.raises(Invalid, match="the changelog already has a column name"):
        lab.pipeline.advance(lab.table)
    assert not lab.catalog.table_exists("lab.world")
