"""The tables that a worker serves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from icemirror.config_file.load import load_settings
from spark_job.iceberg import catalogs
from spark_job.pyiceberg_private.open_catalog import open_catalog
from spark_job.worker.tables import WorkerTables
from tests.lab.lab import Lab


def test_repeated_discovery_opens_a_catalog_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab.make(tmp_path)
    path = tmp_path / "discover.yaml"
    path.write_text(
        f"iceberg: {{catalog: {{type: sql, uri: 'sqlite:///{tmp_path}/catalog.db', "
        f"warehouse: 'file://{tmp_path}/wh'}}}}\n"
        f"discover: [{{namespace: lab, match: '*_changelog', primary_keys: [id]}}]\n"
    )
    opened: list[str] = []

    def record_open(name: str, *arguments: Any) -> Any:
        opened.append(name)
        return open_catalog(name, *arguments)

    monkeypatch.setattr(catalogs, "open_catalog", record_open)
    tables = WorkerTables(load_settings(path, {}), "run")
    for _ in range(5):
        tables._discover_at = 0.0
        assert tables.names() == {lab.settings.tables[0].name}
    assert len(opened) == 1
