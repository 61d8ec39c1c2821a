"""A schedule of commits is merged right through real catalogs and storage, the index beside the table included."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from icemirror.errors import Invalid
from icemirror.result import Merged, NothingToMerge, Rebuilt
from spark_job.engine.engine import InProcessEngine
from spark_job.iceberg.mirror import INDEX_ROOT
from spark_job.rebuild.rebuild import rebuild_step
from tests.mirrors import MirroredWorld
from tests.oracle.schedules import Schedule
from tests.services.azurite import Azurite
from tests.services.gcs import FakeGcs
from tests.services.glue import Glue
from tests.services.lakes import Lake, documented, mirrored_world
from tests.services.nessie import Nessie
from tests.services.postgres import Postgres
from tests.services.rest_catalog import RestCatalog
from tests.services.s3proxy import S3Proxy
from trigger.heads.head_source import open_head_source


@pytest.fixture
def sql_on_s3(tmp_path: Path, s3: S3Proxy, bucket: str) -> dict[str, str]:
    """Pointers in a local SQLite file, tables on S3."""
    uri = f"sqlite:///{tmp_path}/catalog.db"
    return {"type": "sql", "uri": uri, "warehouse": s3.make_bucket(bucket), **s3.properties()}


@pytest.fixture
def rest_on_s3(rest: RestCatalog, s3: S3Proxy) -> dict[str, str]:
    return {**documented("REST"), "uri": rest.uri, "token": "nobody-checks-it", **s3.properties()}


def merge_schedule(folder: Path, lake: Lake, key: str = "int", batches: int = 4) -> MirroredWorld:
    """Commits and merges in turn; every snapshot of the mirror is held against the oracle."""
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    dice = random.Random(seed)
    lab = mirrored_world(folder, lake, Schedule(seed, key), InProcessEngine(dice.choice([1, 2])))
    for _ in range(batches):
        lab.world.commit_many(dice.choice([1, 2]))
        while isinstance(lab.pipeline.advance(lab.table), Merged):
            assert lab.world.verdict(lab.mirror).equal, f"seed {seed}"
    assert lab.mirror.current_snapshot() is not None
    rebuild(lab)
    check_head(lab)
    truncate(lab)
    return lab


def rebuild(lab: MirroredWorld) -> None:
    """Builds the mirror anew, in the place of the old one; it is followed on from there."""
    before, step = lab.mirror, rebuild_step(lab.pipeline, lab.table, "anew", None)
    while not step.done:
        assert lab.mirror.metadata_location == before.metadata_location
        step = rebuild_step(lab.pipeline, lab.table, "anew", step.progress)
    assert step.rebuilt
    assert lab.mirror.metadata.table_uuid == before.metadata.table_uuid
    assert lab.world.verdict(lab.mirror).equal
    lab.world.commit_next()
    assert isinstance(lab.pipeline.advance(lab.table), Merged)
    assert lab.world.verdict(lab.mirror).equal


def truncate(lab: MirroredWorld) -> None:
    """The changelog is dropped and created again, as its writer does at a TRUNCATE: the mirror follows by itself."""
    catalog, name = lab.pipeline.catalogs.get(lab.table.changelog_catalog), lab.table.changelog_id.parts
    schema, before = catalog.load_table(name).schema(), lab.mirror
    catalog.drop_table(name)
    catalog.create_table(name, schema)
    assert isinstance(lab.pipeline.advance(lab.table), Rebuilt)
    assert lab.mirror.scan().count() == 0
    assert lab.mirror.metadata.table_uuid == before.metadata.table_uuid
    assert isinstance(lab.pipeline.advance(lab.table), NothingToMerge)


def check_head(lab: MirroredWorld) -> None:
    """The trigger's light look at the catalog finds the head that an empty plan of the merge saw: nothing to do."""
    found = lab.pipeline.advance(lab.table)
    assert isinstance(found, NothingToMerge)
    name = lab.table.changelog_catalog
    heads = open_head_source(lab.settings.catalog_properties(name), name)
    try:
        assert heads.load_heads([lab.table.changelog_id]) == {lab.table.changelog_id: found.head}
    finally:
        heads.close()


def index_root(lab: MirroredWorld) -> str:
    head = lab.mirror.current_snapshot()
    assert head is not None
    assert head.summary is not None
    return head.summary.additional_properties[INDEX_ROOT]


def test_sql_catalog_on_postgres(tmp_path: Path, postgres_server: Postgres) -> None:
    warehouse = {"uri": postgres_server.uri, "warehouse": f"file://{tmp_path}/warehouse"}
    catalog = {**documented("PostgreSQL"), **warehouse}
    merge_schedule(tmp_path, Lake(catalog), "composite")


def test_rest_catalog_on_s3(tmp_path: Path, rest_on_s3: dict[str, str]) -> None:
    lab = merge_schedule(tmp_path, Lake(rest_on_s3), "uuid")
    beside = lab.mirror.metadata.location.rsplit("/", 1)[0]
    assert index_root(lab).startswith(f"{beside}/_icemirror_index/{lab.mirror.metadata.table_uuid}/")


def test_glue_on_s3(tmp_path: Path, glue_server: Glue, s3: S3Proxy, bucket: str) -> None:
    emulated = {**glue_server.properties(), "warehouse": s3.make_bucket(bucket), **s3.properties()}
    catalog = {**documented("AWS Glue"), **emulated}
    merge_schedule(tmp_path, Lake(catalog), "string")


def test_files_on_google_cloud_storage(tmp_path: Path, gcs: FakeGcs, bucket: str) -> None:
    emulated = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": gcs.make_bucket(bucket)}
    catalog = {**documented("Google Cloud Storage"), **emulated, **gcs.properties()}
    lab = merge_schedule(tmp_path, Lake(catalog))
    assert index_root(lab).startswith(f"gs://{bucket}/")


def test_files_on_azure(tmp_path: Path, azure: Azurite, bucket: str) -> None:
    emulated = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": azure.make_container(bucket)}
    catalog = {**documented("Azure Data Lake Storage"), **emulated, **azure.properties()}
    lab = merge_schedule(tmp_path, Lake(catalog))
    assert index_root(lab).startswith(f"abfss://{bucket}@")


def test_changelog_and_mirror_in_different_catalogs(
    tmp_path: Path, sql_on_s3: dict[str, str], rest_on_s3: dict[str, str]
) -> None:
    merge_schedule(tmp_path, Lake(mirror=rest_on_s3, changelog=sql_on_s3), "date")


@pytest.fixture
def nessie_on_s3(nessie_server: Nessie, s3: S3Proxy) -> dict[str, str]:
    return {**documented("Nessie"), "uri": nessie_server.uri, **s3.properties()}


def test_mirror_on_nessie_which_numbers_fields_its_own_way(
    tmp_path: Path, nessie_on_s3: dict[str, str], sql_on_s3: dict[str, str]
) -> None:
    merge_schedule(tmp_path, Lake(mirror=nessie_on_s3, changelog=sql_on_s3))


def test_changelog_on_nessie_which_shows_no_history_stops_rather_than_lose_events(
    tmp_path: Path, nessie_on_s3: dict[str, str]
) -> None:
    lab = mirrored_world(tmp_path, Lake(nessie_on_s3), Schedule(1, "int"))
    lab.world.commit_next()
    assert isinstance(lab.pipeline.advance(lab.table), Merged)
    lab.world.commit_many(2)
    with pytest.raises(Invalid, match="not in the history of the changelog"):
        lab.pipeline.advance(lab.table)


def test_spark_merges_into_nessie_on_s3(
    tmp_path: Path, nessie_on_s3: dict[str, str], rest_on_s3: dict[str, str]
) -> None:
    lab = mirrored_world(tmp_path, Lake(mirror=nessie_on_s3, changelog=rest_on_s3), Schedule(2, "uuid"))
    merge = [sys.executable, "-m", "icemirror", "merge", "--json", "-c", str(tmp_path / "icemirror.yaml")]
    for _ in range(2):
        lab.world.commit_many(2)
        done = subprocess.run(merge, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert json.loads(done.stdout)["outcome"] == "merged"
        assert lab.world.verdict(lab.mirror).equal
