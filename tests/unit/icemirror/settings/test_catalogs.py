from __future__ import annotations

import pytest

from icemirror.errors import Invalid
from tests.unit.icemirror.settings.samples import TABLES, Load, Refuse

FLAT = """\
iceberg:
  catalog_url: https://catalog.example.com/api
  catalog_token: a-token
  warehouse: main
  s3_endpoint: http://s3:9000
  s3_access_key_id: an-id
  s3_secret_access_key: a-secret
  s3_region: us-east-1
"""


def test_flat_keys_become_properties_of_a_rest_catalog(load: Load) -> None:
    assert load(FLAT + TABLES).catalog_properties(None) == {
        "type": "rest",
        "uri": "https://catalog.example.com/api",
        "token": "a-token",
        "warehouse": "main",
        "s3.endpoint": "http://s3:9000",
        "s3.access-key-id": "an-id",
        "s3.secret-access-key": "a-secret",
        "s3.region": "us-east-1",
    }


def test_properties_pass_through_as_text(load: Load) -> None:
    settings = load(
        "iceberg: {catalog: {type: glue, glue.id: 012, s3.force-virtual-addressing: false, x.y: 1.10, z: 8181}}\n"
        + TABLES
    )
    assert settings.catalog_properties(None) == {
        "type": "glue",
        "glue.id": "012",
        "s3.force-virtual-addressing": "false",
        "x.y": "1.10",
        "z": "8181",
    }


def test_additional_catalogs_are_found_by_name(load: Load) -> None:
    settings = load("iceberg: {catalog: {type: glue}, catalogs: {lake: {uri: 'http://lake'}}}\n" + TABLES)
    assert settings.catalog_properties("lake") == {"uri": "http://lake"}
    with pytest.raises(Invalid, match=r"no catalog 'lakes' under iceberg\.catalogs; did you mean lake\?"):
        settings.catalog_properties("lakes")


def test_properties_are_a_copy(load: Load) -> None:
    settings = load("iceberg: {catalog: {type: glue}}\n" + TABLES)
    settings.catalog_properties(None)["type"] = "changed"
    assert settings.catalog_properties(None) == {"type": "glue"}


@pytest.mark.parametrize(
    ("iceberg", "problem"),
    [
        ("{}", "iceberg: set `catalog` (any PyIceberg catalog), or `catalog_url`"),
        (
            "{catalog: {type: glue}, catalog_url: http://x}",
            "iceberg.catalog_url: use either `catalog` or the flat keys",
        ),
        ("{warehouse: main}", "iceberg.catalog_url: missing: the flat keys describe a REST catalog"),
        (
            "{catalog_url: http://x, s3_access_key_id: a}",
            "iceberg.s3_secret_access_key: missing: an access key and its secret belong together",
        ),
        ("{catalog: {warehouse: x}}", "iceberg.catalog.type: missing: one of rest, sql, glue"),
        ("{catalog: {type: rest}}", "iceberg.catalog.uri: missing: a rest catalog needs its URL"),
        (
            "{catalog: {type: glue}, catalogs: {l: {type: gleu}}}",
            "iceberg.catalogs.l.type: expected one of rest",
        ),
        ("{catalog: {type: glue, auth: {type: oauth2}}}", "iceberg.catalog.auth: expected one plain value"),
        ("{catalog: {type: glue, s3.region: }}", 'iceberg.catalog["s3.region"]: has no value'),
        ("{catalog: glue}", "iceberg.catalog: expected a mapping of keys to values"),
        (
            "{catalog: {type: rest, uri: catalog.example}}",
            "iceberg.catalog.uri: is not the URL of a rest catalog: it must start with http:// or https://",
        ),
        ("{catalog: {type: rest, uri: 'https://'}}", "iceberg.catalog.uri: is not the URL of a rest catalog"),
        (
            "{catalog_url: catalog.example}",
            "iceberg.catalog_url: is not the URL of a REST catalog: it must start",
        ),
        (
            "{catalog: {type: hive, uri: 'host:9083'}}",
            "iceberg.catalog.uri: is not the URL of a hive catalog",
        ),
        (
            "{catalog: {type: hive, uri: 'thrift://host'}}",
            "iceberg.catalog.uri: is not the URL of a hive catalog: write thrift://host:9083",
        ),
        (
            "{catalog: {type: hive, uri: 'thrift://a:9083,b:9083'}}",
            "iceberg.catalog.uri: is not the URL of a hive catalog",
        ),
        (
            "{catalog: {type: hive, uri: 'thrift://a:9083', ugi: me}}",
            "iceberg.catalog.ugi: expected user:group",
        ),
        (
            "{catalog: {type: sql, uri: /data/catalog.db}}",
            "iceberg.catalog.uri: is not the URL of a sql catalog",
        ),
        (
            "{catalog: {type: sql, uri: 'sqlite://data/catalog.db'}}",
            "iceberg.catalog.uri: is not the URL of a sql catalog: write three slashes before a file's path",
        ),
        (
            "{catalog: {type: glue, warehouse: lake}}",
            "iceberg.catalog.warehouse: is 'lake', not an absolute path, such as s3://bucket/folder or file:///folder",
        ),
        (
            "{catalog: {type: glue, warehouse: 'file://data/lake'}}",
            "iceberg.catalog.warehouse: is 'file://data/lake'",
        ),
        (
            "{catalog: {type: glue, glue.max-retries: many}}",
            'iceberg.catalog["glue.max-retries"]: expected a whole',
        ),
        (
            "{catalog: {type: glue, warehouse: 's4://b/l'}}",
            "iceberg.catalog.warehouse: unknown storage s4://",
        ),
    ],
)
def test_invalid_catalog_is_refused(refuse: Refuse, iceberg: str, problem: str) -> None:
    (found,) = refuse(f"iceberg: {iceberg}\n{TABLES}")
    assert found.removeprefix("icemirror.yaml:1: ").startswith(problem)


@pytest.mark.parametrize(
    "uri",
    [
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite:///catalog.db",
        "sqlite+pysqlite:////data/catalog.db",
        "postgresql+psycopg2://me:hunter2@db:5432/lake",
        "mysql+pymysql://db/lake",
    ],
)
def test_database_urls_are_accepted(load: Load, uri: str) -> None:
    settings = load(f"iceberg: {{catalog: {{type: sql, uri: '{uri}'}}}}\n{TABLES}")
    assert settings.catalog_properties(None)["uri"] == uri


@pytest.mark.parametrize(
    "catalog",
    [
        "{type: rest, uri: 'http://c', warehouse: main}",
        "{type: glue, warehouse: /data/lake}",
        "{type: glue, warehouse: 's3://bucket'}",
        "{type: glue, warehouse: 'file:/data'}",
        "{type: glue, warehouse: 'mine://x', py-io-impl: my.own.FileIO}",
    ],
)
def test_table_locations_are_accepted(load: Load, catalog: str) -> None:
    assert load(f"iceberg: {{catalog: {catalog}}}\n{TABLES}").iceberg.catalog


def test_index_location_is_an_absolute_path(refuse: Refuse) -> None:
    (found,) = refuse(f"iceberg: {{catalog: {{type: glue}}}}\nindex_location: indexes\n{TABLES}")
    assert found.startswith("icemirror.yaml:2: index_location: is 'indexes', not an absolute path")
