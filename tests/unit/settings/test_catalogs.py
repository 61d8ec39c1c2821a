from __future__ import annotations

import pytest

from icemirror.errors import Invalid
from tests.unit.settings.samples import TABLES, Load, Refuse

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


def test_flat_keys_are_a_rest_catalog_in_pyicebergs_names(load: Load) -> None:
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


def test_further_catalogs_go_by_name(load: Load) -> None:
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
        ("{}", "iceberg: needs `catalog` (any PyIceberg catalog), or `catalog_url`"),
        (
            "{catalog: {type: glue}, catalog_url: http://x}",
            "iceberg.catalog_url: the flat keys stand instead of",
        ),
        ("{warehouse: main}", "iceberg.catalog_url: missing: the flat keys describe a REST catalog"),
        (
            "{catalog_url: http://x, s3_access_key_id: a}",
            "iceberg.s3_secret_access_key: missing: an access key and its secret come together",
        ),
        ("{catalog: {warehouse: x}}", "iceberg.catalog.type: missing: one of rest, sql, glue"),
        ("{catalog: {type: rest}}", "iceberg.catalog.uri: missing: a rest catalog needs its address"),
        (
            "{catalog: {type: glue}, catalogs: {l: {type: gleu}}}",
            "iceberg.catalogs.l.type: expected one of rest",
        ),
        ("{catalog: {type: glue, auth: {type: oauth2}}}", "iceberg.catalog.auth: expected one plain value"),
        ("{catalog: {type: glue, s3.region: }}", 'iceberg.catalog["s3.region"]: has no value'),
        ("{catalog: glue}", "iceberg.catalog: expected a mapping of keys to values"),
    ],
)
def test_a_catalog_that_cannot_work_is_refused(refuse: Refuse, iceberg: str, problem: str) -> None:
    (found,) = refuse(f"iceberg: {iceberg}\n{TABLES}")
    assert found.removeprefix("icemirror.yaml:1: ").startswith(problem)
