"""Merges of schedules through real catalogs and storage, with the index next to the table."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from icemirror.errors import Invalid
from icemirror.step_results import Merged
from spark_job.iceberg.property_names import PROPERTY_INDEX_ROOT
from tests.lab.mirrored_world import MirroredWorld
from tests.oracle.schedules import Schedule
from tests.services.azurite import Azurite
from tests.services.gcs import FakeGcs
from tests.services.glue import Glue
from tests.services.lakes import Lake, documented, mirrored_world
from tests.services.merge_schedule import merge_schedule
from tests.services.nessie import Nessie
from tests.services.postgres import Postgres
from tests.services.rest_catalog import RestCatalog
from tests.services.s3proxy import S3Proxy


@pytest.fixture
def sql_on_s3(tmp_path: Path, s3: S3Proxy, bucket: str) -> dict[str, str]:
    """Return a catalog with pointers in a local SQLite file and tables on S3."""
    uri = f"sqlite:///{tmp_path}/catalog.db"
    return {"type": "sql", "uri": uri, "warehouse": s3.make_bucket(bucket), **s3.properties()}


@pytest.fixture
def rest_on_s3(rest: RestCatalog, s3: S3Proxy) -> dict[str, str]:
    return {**documented("REST"), "uri": rest.uri, "token": "not-checked", **s3.properties()}


def index_root(world: MirroredWorld) -> str:
    head = world.mirror.current_snapshot()
    assert head is not None
    assert head.summary is not None
    return head.summary.additional_properties[PROPERTY_INDEX_ROOT]


def test_schedule_is_merged_on_a_postgres_catalog(tmp_path: Path, postgres_server: Postgres) -> None:
    warehouse = {"uri": postgres_server.uri, "warehouse": f"file://{tmp_path}/warehouse"}
    catalog = {**documented("PostgreSQL"), **warehouse}
    merge_schedule(tmp_path, Lake(catalog), "composite")


def test_schedule_is_merged_on_a_rest_catalog_and_s3(tmp_path: Path, rest_on_s3: dict[str, str]) -> None:
    world = merge_schedule(tmp_path, Lake(rest_on_s3), "uuid")
    parent = world.mirror.metadata.location.rsplit("/", 1)[0]
    assert index_root(world).startswith(f"{parent}/_icemirror_index/{world.mirror.metadata.table_uuid}/")


def test_schedule_is_merged_on_glue_and_s3(
    tmp_path: Path, glue_server: Glue, s3: S3Proxy, bucket: str
) -> None:
    emulated = {**glue_server.properties(), "warehouse": s3.make_bucket(bucket), **s3.properties()}
    catalog = {**documented("AWS Glue"), **emulated}
    merge_schedule(tmp_path, Lake(catalog), "string")


@pytest.mark.timeout(3000)  # includes the first build of the server
def test_schedule_is_merged_on_google_cloud_storage(tmp_path: Path, gcs: FakeGcs, bucket: str) -> None:
    emulated = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": gcs.make_bucket(bucket)}
    catalog = {**documented("Google Cloud Storage"), **emulated, **gcs.properties()}
    world = merge_schedule(tmp_path, Lake(catalog))
    assert index_root(world).startswith(f"gs://{bucket}/")


def test_schedule_is_merged_on_azure(tmp_path: Path, azure: Azurite, bucket: str) -> None:
    emulated = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": azure.make_container(bucket)}
    catalog = {**documented("Azure Data Lake Storage"), **emulated, **azure.properties()}
    world = merge_schedule(tmp_path, Lake(catalog))
    assert index_root(world).startswith(f"abfss://{bucket}@")


def test_schedule_is_merged_between_different_catalogs(
    tmp_path: Path, sql_on_s3: dict[str, str], rest_on_s3: dict[str, str]
) -> None:
    merge_schedule(tmp_path, Lake(mirror=rest_on_s3, changelog=sql_on_s3), "date")


@pytest.fixture
def nessie_on_s3(nessie_server: Nessie, s3: S3Proxy) -> dict[str, str]:
    return {**documented("Nessie"), "uri": nessie_server.uri, **s3.properties()}


def test_schedule_is_merged_on_nessie_with_reassigned_field_ids(
    tmp_path: Path, nessie_on_s3: dict[str, str], sql_on_s3: dict[str, str]
) -> None:
    merge_schedule(tmp_path, Lake(mirror=nessie_on_s3, changelog=sql_on_s3))


def test_changelog_on_nessie_is_rejected_because_its_history_is_missing(
    tmp_path: Path, nessie_on_s3: dict[str, str]
) -> None:
    world = mirrored_world(tmp_path, Lake(nessie_on_s3), Schedule(1, "int"))
    world.oracle.commit_next()
    assert isinstance(world.pipeline.advance(world.table), Merged)
    world.oracle.commit_many(2)
    with pytest.raises(Invalid, match="not in the history of the changelog"):
        world.pipeline.advance(world.table)


def test_spark_merges_into_nessie_on_s3(
    tmp_path: Path, nessie_on_s3: dict[str, str], rest_on_s3: dict[str, str]
) -> None:
    world = mirrored_world(tmp_path, Lake(mirror=nessie_on_s3, changelog=rest_on_s3), Schedule(2, "uuid"))
    merge = [sys.executable, "-m", "icemirror", "merge", "--json", "-c", str(tmp_path / "icemirror.yaml")]
    for _ in range(2):
        world.oracle.commit_many(2)
        done = subprocess.run(merge, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert json.loads(done.stdout)["outcome"] == "merged"
        assert world.oracle.verdict(world.mirror).equal
