"""Merge schema changes on a lake."""

from __future__ import annotations

import os
from pathlib import Path

import yaml
from pyiceberg.types import IntegerType, LongType, StringType

from icemirror.config_file.load import load_settings
from spark_job.engine.engine import InProcessEngine, LazyEngine
from spark_job.iceberg.catalogs import Catalogs
from spark_job.pipeline import Pipeline
from tests.lab.column_changes import assert_sound, change_columns, commit_events, rebuild
from tests.lab.lab import Lab, changelog_schema
from tests.services.lakes import Lake

SCHEMA = changelog_schema(("id", IntegerType()), ("name", StringType()), ("n", IntegerType()))


def make(folder: Path, lake: Lake) -> Lab:
    path = folder / "icemirror.yaml"
    path.write_text(yaml.safe_dump(lake.document()))
    settings = load_settings(path, os.environ)
    catalogs, table = Catalogs(settings), settings.tables[0]
    for name in {table.changelog_catalog, table.mirror_catalog}:
        catalogs.get(name).create_namespace_if_not_exists(lake.namespace)
    changelog = catalogs.get(table.changelog_catalog).create_table(table.changelog_id.parts, SCHEMA)
    engine = LazyEngine(InProcessEngine)
    return Lab(folder, settings, Pipeline(settings, catalogs, engine, "test", key_check_rows=None), changelog)


def merge_schema_changes(folder: Path, lake: Lake) -> None:
    lab = make(folder, lake)
    commit_events(lab, "I1@1", "I2@1", name="old", n=1)
    lab.merge()
    change_columns(
        lab,
        lambda to: to.rename_column("name", "title"),
        lambda to: to.update_column("n", LongType()),
        lambda to: to.add_column("more", LongType()),
    )
    commit_events(lab, "U1@2", "I3@2", title="new", n=2**40, more=7)
    lab.merge()
    expected = [(1, "new", 2**40, 7), (2, "old", 1, None), (3, "new", 2**40, 7)]
    assert mirror_rows(lab) == expected
    assert_sound(lab)
    change_columns(lab, lambda to: to.rename_column("title", "name"))
    change_columns(lab, lambda to: to.rename_column("name", "title"), lambda to: to.delete_column("more"))
    commit_events(lab, "I4@3", title="newest", n=4)
    lab.merge()
    expected.append((4, "newest", 4, None))
    assert mirror_rows(lab) == expected
    rebuild(lab)
    assert mirror_rows(lab) == expected
    assert_sound(lab)


def mirror_rows(lab: Lab) -> list[tuple[object, ...]]:
    mirror = lab.pipeline.catalogs.load_mirror(lab.table)
    assert mirror is not None
    rows = mirror.scan().to_arrow().to_pylist()
    return sorted((row["id"], row["title"], row["n"], row["more"]) for row in rows)
