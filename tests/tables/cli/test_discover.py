"""Commands report a `discover` pattern that matches nothing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NoReturn

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import ForbiddenError, NoSuchNamespaceError, ServiceUnavailableError

from icemirror.cli.main import run
from icemirror.config_file.load import load_settings
from icemirror.errors import Kind
from spark_job.worker.discover import is_missing_namespace
from spark_job.worker.tables import WorkerTables
from tests.lab.lab import Lab


@pytest.fixture
def config(tmp_path: Path) -> Path:
    Lab.make(tmp_path)
    path = tmp_path / "discover.yaml"
    path.write_text(
        f"iceberg: {{catalog: {{type: sql, uri: 'sqlite:///{tmp_path}/catalog.db', "
        f"warehouse: 'file://{tmp_path}/wh'}}}}\n"
        f"trigger: {{state: {{type: sqlite, path: '{tmp_path}/state.db'}}}}\n"
        "discover: [{namespace: lab, match: '*_chnagelog'}]\n"
    )
    return path


@pytest.mark.parametrize("command", ["plan", "merge", "status", "sweep", "maintain"])
def test_pattern_without_matches_is_reported(
    config: Path, capfd: pytest.CaptureFixture[str], command: str
) -> None:
    assert run([command, "-c", str(config)]) == 0
    shown = capfd.readouterr()
    assert "discover: no table of lab matches *_chnagelog" in shown.err
    assert shown.out.strip() in ("", "no tables")


def test_pattern_with_matches_is_not_reported(config: Path, capfd: pytest.CaptureFixture[str]) -> None:
    config.write_text(config.read_text().replace("chnagelog", "changelog"))
    for command in ("plan", "status"):
        assert run([command, "-c", str(config)]) == 0
        shown = capfd.readouterr()
        assert "matches" not in shown.err
        assert "lab.world" in shown.out


@pytest.mark.parametrize("command", ["plan", "status", "maintain"])
def test_missing_namespace_is_noted_and_other_namespaces_are_served(
    config: Path, capfd: pytest.CaptureFixture[str], command: str
) -> None:
    both = "[{namespace: nons, match: '*_changelog'}, {namespace: lab, match: '*_changelog'}]"
    config.write_text(config.read_text().replace("[{namespace: lab, match: '*_chnagelog'}]", both))
    assert run([command, "-c", str(config)]) == 0
    shown = capfd.readouterr()
    assert "discover: no table of nons matches *_changelog" in shown.err
    assert "error" not in shown.err
    assert "lab.world" in shown.out + shown.err


def test_worker_skips_a_missing_namespace(config: Path) -> None:
    both = "[{namespace: nons, match: '*_changelog'}, {namespace: lab, match: '*_changelog'}]"
    config.write_text(config.read_text().replace("[{namespace: lab, match: '*_chnagelog'}]", both))
    tables = WorkerTables(load_settings(config, os.environ), "run")
    assert tables.names() == {"lab.world"}
    assert tables.discovery_error() is None


def test_unexpected_catalog_error_does_not_stop_a_worker(
    config: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    listed = "tables: [{changelog: lab.world_changelog, mirror: lab.world}]\n"
    config.write_text(config.read_text() + listed)
    tables = WorkerTables(load_settings(config, os.environ), "run")
    monkeypatch.setattr("spark_job.worker.tables._RETRY_SECONDS", 0.0)

    def fail(*_: object) -> NoReturn:
        raise KeyError("unexpected")

    with monkeypatch.context() as patch:
        patch.setattr(SqlCatalog, "list_tables", fail)
        for _ in range(3):
            assert tables.names() == {"lab.world"}
    error = tables.discovery_error()
    assert error is not None
    assert error.kind is Kind.UNEXPECTED
    assert "KeyError" in error.message
    assert [record.message for record in caplog.records].count("discovery failed") == 1
    assert tables.names() == {"lab.world"}
    assert tables.discovery_error() is None


def test_only_a_missing_namespace_is_skipped() -> None:
    hive = type("UnknownDBException", (Exception,), {})
    assert is_missing_namespace(NoSuchNamespaceError("nons"))
    assert is_missing_namespace(hive())
    assert not is_missing_namespace(ServiceUnavailableError("away"))
    assert not is_missing_namespace(ForbiddenError("no"))


def test_config_check_does_not_open_the_catalog(tmp_path: Path) -> None:
    path = tmp_path / "icemirror.yaml"
    path.write_text(
        f"iceberg: {{catalog: {{type: sql, uri: 'sqlite:///{tmp_path}/none.db', warehouse: 'file://{tmp_path}'}}}}\n"
        "discover: [{namespace: lab, match: '*_changelog'}]\n"
    )
    assert run(["config", "check", "-c", str(path)]) == 0
    assert not (tmp_path / "none.db").exists()
