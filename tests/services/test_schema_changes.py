"""Real catalogs accept new columns with their rows in one commit, and preserve the field ids."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.types import LongType

from icemirror.errors import Invalid
from tests.lab.column_changes import change_columns, commit_events
from tests.services.glue import Glue
from tests.services.lakes import Lake, documented
from tests.services.merge_schema_changes import make, merge_schema_changes
from tests.services.nessie import Nessie
from tests.services.rest_catalog import RestCatalog
from tests.services.s3proxy import S3Proxy


@pytest.fixture
def sql(tmp_path: Path) -> dict[str, str]:
    return {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/lake"}


def test_columns_are_changed_on_a_rest_catalog(tmp_path: Path, rest: RestCatalog, s3: S3Proxy) -> None:
    catalog = {**documented("REST"), "uri": rest.uri, "token": "not-checked", **s3.properties()}
    merge_schema_changes(tmp_path, Lake(catalog))


def test_schema_change_on_nessie_is_rejected_before_a_write(
    tmp_path: Path, nessie_server: Nessie, s3: S3Proxy, sql: dict[str, str]
) -> None:
    catalog = {**documented("Nessie"), "uri": nessie_server.uri, **s3.properties()}
    lab = make(tmp_path, Lake(mirror=catalog, changelog=sql))
    commit_events(lab, "I1@1", name="old", n=1)
    lab.merge()
    change_columns(lab, lambda to: to.add_column("more", LongType()))
    commit_events(lab, "U1@2", name="new", n=2, more=7)
    with pytest.raises(Invalid, match="Nessie does not accept schema changes from PyIceberg"):
        lab.pipeline.advance(lab.table)


def test_columns_are_changed_on_glue(tmp_path: Path, glue_server: Glue, s3: S3Proxy, bucket: str) -> None:
    emulated = {**glue_server.properties(), "warehouse": s3.make_bucket(bucket), **s3.properties()}
    merge_schema_changes(tmp_path, Lake({**documented("AWS Glue"), **emulated}))
