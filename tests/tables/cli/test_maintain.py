"""Effects and output of `icemirror maintain`."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from icemirror.cli.main import run
from icemirror.settings.quantities import parse_seconds
from icemirror.telemetry.redaction import forget_secrets, register_secret
from spark_job.iceberg import catalogs
from spark_job.pyiceberg_private.open_catalog import open_catalog
from spark_job.worker.worker import _MAX_SLICE_SECONDS
from tests.lab import foreign
from tests.lab.lab import Lab, local_path
from tests.lab.referenced_files import referenced_files, stored_files


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """A mirror with five snapshots, a limit of two, and one orphan file."""
    lab = Lab.make(tmp_path)
    for number in range(1, 6):
        lab.commit_events(f"U1@{number}")
        lab.merge()
    with lab.mirror.transaction() as transaction:
        transaction.set_properties(
            {"icemirror.max-snapshots": "2", "history.expire.min-snapshots-to-keep": "1"}
        )
    monkeypatch.setenv("ICEMIRROR_CONFIG", str(lab.settings.source_path))
    orphan = orphan_path(lab)
    orphan.write_bytes(b"left")
    os.utime(orphan, (time.time() - 90_000,) * 2)
    return lab


def orphan_path(lab: Lab) -> Path:
    return local_path(lab.mirror.location()) / "data" / "left.parquet"


def printed(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_expire_removes_snapshots_and_files(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["maintain", "--table", "lab.world", "expire", "--json"]) == 0
    (result,) = printed(capsys)
    assert (result["action"], result["snapshots"], result["retained"]) == ("expire", 3, 2)
    assert len(lab.mirror.metadata.snapshots) == 2
    assert stored_files(lab.folder / "warehouse") == referenced_files(lab.mirror) | {orphan_path(lab)}
    assert lab.rows() == {1: "U1@5"}


def test_dry_run_reports_the_counts_of_the_real_run(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    before = lab.files_on_disk()
    assert run(["maintain", "expire", "--dry-run", "--json"]) == 0
    assert lab.files_on_disk() == before
    assert run(["maintain", "expire", "--json"]) == 0
    dry, real = printed(capsys)
    assert dry == {**real, "dry_run": True}


def test_clean_orphans_removes_unreferenced_files(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["maintain", "-t", "lab.world", "clean-orphans", "--dry-run"]) == 0
    shown = capsys.readouterr()
    assert "left.parquet" in shown.out
    assert "Nothing was changed" in shown.err
    assert orphan_path(lab).exists()
    assert run(["maintain", "-t", "lab.world", "clean-orphans", "--older-than", "2d", "--json"]) == 0
    assert run(["maintain", "-t", "lab.world", "clean-orphans", "--json"]) == 0
    young, cleaned = printed(capsys)
    assert (young["files"], young["young"]) == (0, 1)
    assert (cleaned["files"], cleaned["bytes"]) == (1, 4)
    assert not orphan_path(lab).exists()


def test_default_is_to_expire_and_clean_orphans(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["maintain"]) == 0
    shown = capsys.readouterr().out
    assert "snapshots expired" in shown
    assert "orphans deleted" in shown
    assert stored_files(lab.folder / "warehouse") == referenced_files(lab.mirror)


@pytest.mark.parametrize(
    "arguments", [["squash"], ["clean-orphans", "--older-than", "5m"], ["--older-than", "x"]]
)
def test_bad_usage_is_exit_code_2(lab: Lab, arguments: list[str]) -> None:
    before = lab.files_on_disk()
    assert run(["maintain", *arguments]) == 2
    assert lab.files_on_disk() == before


def test_missing_mirror_requires_action(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    lab.catalog.drop_table("lab.world")
    assert run(["maintain", "--table", "lab.world", "--json"]) == 3
    (result,) = printed(capsys)
    message = (
        "lab.world: there is no mirror yet; the first merge that finds events in the changelog creates it."
    )
    assert result["error"] == {"kind": "invalid", "message": message}


def test_table_without_a_mirror_is_skipped_if_no_table_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lab = Lab.make(tmp_path)
    for json_option in ([], ["--json"]):
        assert run(["maintain", "-c", str(lab.settings.source_path), *json_option]) == 0
        shown = capsys.readouterr()
        assert shown.out == ""
        assert "lab.world: there is no mirror yet" in shown.err
        assert "Skipped." in shown.err


def test_unexpected_error_stops_only_its_table(
    lab: Lab, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    attempted: list[str] = []

    def fail(load: Any, name: str, **_: Any) -> None:
        attempted.append(name)
        raise ZeroDivisionError("the value of a row")

    monkeypatch.setattr("spark_job.maintenance.orphans.clean_orphans", fail)
    twice = lab.settings.tables * 2
    monkeypatch.setattr("icemirror.cli.commands.maintain.select_job_tables", lambda *_: twice)
    assert run(["maintain", "--json"]) == 1
    expired, first, _, second = printed(capsys)
    assert expired["snapshots"] > 0, "earlier actions are reported"
    assert attempted == ["lab.world", "lab.world"]
    assert first == second
    assert first["error"]["kind"] == "unexpected"
    assert "ZeroDivisionError" in first["error"]["message"]
    assert "the value of a row" not in first["error"]["message"]


def test_all_tables_share_one_set_of_catalogs(
    lab: Lab, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []

    def open_counted(name: str, *arguments: Any) -> Any:
        opened.append(name)
        return open_catalog(name, *arguments)

    monkeypatch.setattr(catalogs, "open_catalog", open_counted)
    three = lab.settings.tables * 3
    monkeypatch.setattr("icemirror.cli.commands.maintain.select_job_tables", lambda *_: three)
    assert run(["maintain", "--json"]) == 0
    assert run(["maintain", "index", "--json"]) == 0
    assert len(opened) == 2, "one for each command"


def test_secrets_in_errors_are_masked(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    lab.catalog.drop_table("lab.world")
    register_secret("no mirror")
    try:
        assert run(["maintain", "--table", "lab.world", "--json"]) == 3
    finally:
        forget_secrets()
    (result,) = printed(capsys)
    assert result["error"]["message"].startswith("lab.world: there is *** yet;")


@pytest.mark.parametrize("age", ["1h", "6h", "25199s"])
def test_older_than_must_exceed_the_longest_slice(
    lab: Lab, age: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["maintain", "clean-orphans", "--older-than", age]) == 2
    assert "'--older-than': must be at least 7h" in capsys.readouterr().err
    assert parse_seconds("7h") == _MAX_SLICE_SECONDS + 3600


def test_disabled_garbage_collection_requires_action(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    with lab.mirror.transaction() as transaction:
        transaction.set_properties({"gc.enabled": "false"})
    assert run(["maintain", "expire"]) == 3
    assert "gc.enabled is false" in capsys.readouterr().err


def test_compact_rewrites_small_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lab = Lab.make(tmp_path, options="compact: false")
    monkeypatch.setenv("ICEMIRROR_CONFIG", str(lab.settings.source_path))
    for number in range(1, 21):
        lab.commit_events(f"I{number}@{number}")
        lab.merge()
    rows = lab.rows()
    assert run(["maintain", "compact", "--dry-run", "--json"]) == 0
    assert run(["maintain", "compact", "--json"]) == 0
    assert run(["maintain", "compact", "--json"]) == 0
    dry, real, nothing = printed(capsys)
    assert (dry["files_before"], dry["commits"]) == (20, 0)
    assert (real["files_before"], real["files_after"], real["rows"], real["commits"]) == (20, 1, 20, 1)
    assert (nothing["files_before"], nothing["commits"], nothing["waits"]) == (0, 0, False)
    assert lab.rows() == rows
    foreign.append(lab.mirror, [(99, "theirs")])
    assert run(["maintain", "compact"]) == 0
    assert "then compact" in capsys.readouterr().err


@pytest.mark.parametrize("action", ["expire", "compact", "index"])
def test_older_than_is_refused_for_other_actions(
    lab: Lab, capsys: pytest.CaptureFixture[str], action: str
) -> None:
    assert run(["maintain", action, "--older-than", "48h"]) == 2
    assert f"--older-than is for clean-orphans, not for {action}" in capsys.readouterr().err
