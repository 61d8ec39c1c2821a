"""A changelog that follows a schedule, and the real pipeline that mirrors it."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from pyiceberg.table import Table

from icemirror.config_file.load import load_settings
from icemirror.settings import Settings, TableSettings
from spark_job.engine.engine import Engine, LazyEngine
from spark_job.iceberg.catalogs import Catalogs
from spark_job.pipeline import Pipeline
from tests.oracle.schedules import Schedule
from tests.oracle.world import World

_CONFIG = """
iceberg:
  catalog: {{type: sql, uri: "sqlite:///{folder}/catalog.db", warehouse: "file://{folder}/warehouse"}}
trigger:
  state: {{type: sqlite, path: "{folder}/state.db"}}
tables:
  - namespace: lab
    changelog_table: world_changelog
    mirror_table: world
{options}
"""


def write_config(folder: Path, options: str = "", extra_config: str = "") -> Path:
    """Write a configuration for one table `lab.world`; `options` are lines of its settings, `extra_config` follows."""
    path = folder / "icemirror.yaml"
    lines = "\n".join(f"    {line}" for line in options.splitlines())
    path.write_text(_CONFIG.format(folder=folder, options=lines) + extra_config)
    return path


def upgrade_like_java(table: Table) -> None:
    """Upgrade a table from v2 to v3 like other engines: only the metadata changes."""
    path = Path(table.refresh().metadata_location.removeprefix("file://"))
    metadata = json.loads(path.read_text())
    metadata |= {"format-version": 3, "next-row-id": 0}
    path.write_text(json.dumps(metadata))
    table.refresh()


@dataclass
class MirroredWorld:
    """The settings and pipeline of one schedule. `oracle` commits its events and knows the expected rows."""

    settings: Settings
    pipeline: Pipeline
    oracle: World

    @classmethod
    def make(
        cls,
        folder: Path,
        schedule: Schedule,
        engine: Engine,
        *,
        options: str = "",
        extra_config: str = "",
        use_duckdb: bool = True,
    ) -> MirroredWorld:
        folder.mkdir(parents=True, exist_ok=True)
        settings = load_settings(write_config(folder, options, extra_config), os.environ)
        catalogs = Catalogs(settings)
        catalogs.get(None).create_namespace_if_not_exists("lab")
        oracle = World(catalogs.get(None), "lab", schedule, use_duckdb=use_duckdb)
        pipeline = Pipeline(
            settings, catalogs, LazyEngine(lambda: engine), run_id="test", key_check_rows=None
        )
        return cls(settings, pipeline, oracle)

    @property
    def table(self) -> TableSettings:
        """The only table of the configuration."""
        return self.settings.tables[0]

    @property
    def mirror(self) -> Table:
        """The mirror with its current metadata."""
        found = self.pipeline.catalogs.load_mirror(self.table)
        assert found is not None
        return found
