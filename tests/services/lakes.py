"""Catalogs and storage for merging a schedule: the configuration, and the mirrored world on it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import yaml

from icemirror.config_file.load import load_settings
from spark_job.engine.engine import Engine, InProcessEngine, LazyEngine
from spark_job.iceberg.catalogs import Catalogs
from spark_job.pipeline import Pipeline
from tests.lab.mirrored_world import MirroredWorld
from tests.oracle.schedules import Schedule
from tests.oracle.world import World
from tests.services.renumbered import RenumberedChangelog

CATALOGS_PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "catalogs.md"
Properties = Mapping[str, str]


@dataclass(frozen=True)
class Lake:
    """The location of changelog and mirror: PyIceberg properties of one catalog, or of two.

    The changelog's writer and the oracle use `writer_mirror` and `writer_changelog`, which bypass fault proxies.
    """

    mirror: Properties
    changelog: Properties | None = None
    writer_mirror: Properties | None = None
    writer_changelog: Properties | None = None
    options: Mapping[str, object] = field(default_factory=dict)
    namespace: str = field(default_factory=lambda: f"lab_{uuid4().hex[:12]}")

    def document(self, *, writer: bool = False) -> dict[str, object]:
        """Return the configuration of one table."""
        mirror = (self.writer_mirror if writer else None) or self.mirror
        changelog = (self.writer_changelog if writer else None) or self.changelog
        table = {"namespace": self.namespace, "changelog_table": "world_changelog", "mirror_table": "world"}
        if changelog is None:
            return {"iceberg": {"catalog": dict(mirror)}, "tables": [table], **self.options}
        return {
            "iceberg": {"catalog": dict(mirror), "catalogs": {"source": dict(changelog)}},
            "tables": [{**table, "changelog_catalog": "source"}],
            **self.options,
        }


def documented(title: str) -> dict[str, str]:
    """Return the catalog properties under a heading of docs/how-to/catalogs.md; tests override the server."""
    section = CATALOGS_PAGE.read_text().split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]
    document = yaml.safe_load(section.split("```yaml\n", 1)[1].split("```", 1)[0])
    return {name: str(value) for name, value in document["iceberg"]["catalog"].items()}


def mirrored_world(
    folder: Path, lake: Lake, schedule: Schedule, engine: Engine | None = None
) -> MirroredWorld:
    """Return the schedule's changelog in the lake, with the pipeline that mirrors it."""
    path = folder / "icemirror.yaml"
    settings = load_settings(_write(path, lake.document()), os.environ)
    writing = Catalogs(load_settings(_write(folder / "writer.yaml", lake.document(writer=True)), os.environ))
    table = settings.tables[0]
    for name in {table.changelog_catalog, table.mirror_catalog}:
        writing.get(name).create_namespace_if_not_exists(lake.namespace)
    world = World(writing.get(table.changelog_catalog), lake.namespace, schedule, use_duckdb=False)
    world.changelog = RenumberedChangelog.of(world.changelog)
    chosen = engine or InProcessEngine()
    pipeline = Pipeline(
        settings, Catalogs(settings), LazyEngine(lambda: chosen), run_id="test", key_check_rows=None
    )
    return MirroredWorld(settings, pipeline, world)


def _write(path: Path, document: Mapping[str, object]) -> Path:
    path.write_text(yaml.safe_dump(document))
    return path
