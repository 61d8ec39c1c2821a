from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table import Table

from icemirror.config_file.load import load_settings
from icemirror.errors import BadConfig, Invalid, Transient
from spark_job.iceberg.catalogs import Catalogs
from spark_job.storage.discard import discard
from tests.lab.mirrored_world import write_config
from tests.lab.samples import SCHEMA


def catalogs(folder: Path) -> Catalogs:
    return Catalogs(load_settings(write_config(folder), os.environ))


def catalogs_with(folder: Path, catalog: str) -> Catalogs:
    path = folder / "other.yaml"
    path.write_text(
        f"iceberg: {{catalog: {catalog}}}\n"
        "tables: [{changelog: lab.world_changelog, mirror: lab.world}]\n"
        f'trigger: {{state: {{type: sqlite, path: "{folder}/state.db"}}}}\n'
    )
    return Catalogs(load_settings(path, os.environ))


def test_catalog_is_opened_once(tmp_path: Path) -> None:
    opened = catalogs(tmp_path)
    assert opened.get(None) is opened.get(None)


def test_error_for_a_missing_changelog_states_what_to_do(tmp_path: Path) -> None:
    opened = catalogs(tmp_path)
    opened.get(None)
    table = load_settings(write_config(tmp_path), os.environ).tables[0]
    with pytest.raises(Invalid, match=r"lab\.world: there is no changelog .*changelog_table"):
        opened.load_changelog(table)
    opened.get(None).create_namespace("lab")
    with pytest.raises(Invalid, match="there is no changelog"):
        opened.load_changelog(table)


def test_missing_mirror_is_none(tmp_path: Path) -> None:
    table = load_settings(write_config(tmp_path), os.environ).tables[0]
    opened = catalogs(tmp_path)
    opened.get(None)
    assert opened.load_mirror(table) is None


def test_missing_sqlite_catalog_is_an_error_and_is_not_created(tmp_path: Path) -> None:
    table = load_settings(write_config(tmp_path), os.environ).tables[0]
    for load in (catalogs(tmp_path).load_mirror, catalogs(tmp_path).load_changelog):
        with pytest.raises(Transient, match=rf"does not exist.*{tmp_path}/catalog.db"):
            load(table)
    assert not (tmp_path / "catalog.db").exists()


def test_mirror_may_be_the_first_table_of_a_separate_catalog(tmp_path: Path) -> None:
    path = write_config(tmp_path, "mirror_catalog: other")
    other = f"  catalogs: {{other: {{type: sql, uri: 'sqlite:///{tmp_path}/o.db'}}}}\n"
    path.write_text(path.read_text().replace("  catalog:", f"{other}  catalog:"))
    settings = load_settings(path, os.environ)
    assert Catalogs(settings).load_mirror(settings.tables[0]) is None
    assert not (tmp_path / "o.db").exists()


def test_missing_driver_is_bad_configuration_and_names_one_package(tmp_path: Path) -> None:
    opened = catalogs_with(
        tmp_path, '{type: sql, uri: "oracle+oracledb://host/name", warehouse: "file:///x"}'
    )
    with pytest.raises(BadConfig, match="oracledb, which is not installed: pip install 'oracledb'"):
        opened.get(None)


def test_missing_metadata_file_is_transient(tmp_path: Path) -> None:
    """On some stores a file becomes visible after the catalog's pointer to it."""
    opened = catalogs(tmp_path)
    opened.get(None).create_namespace("lab")
    mirror = opened.get(None).create_table("lab.world", SCHEMA)
    Path(mirror.metadata_location.removeprefix("file://")).unlink()
    table = load_settings(write_config(tmp_path), os.environ).tables[0]
    with pytest.raises(Transient, match="metadata file is missing"):
        opened.load_mirror(table)


def test_incomplete_response_is_transient(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """botocore accepts an incomplete Glue response as a response without a table."""

    def fail_to_parse(*_: object) -> Table:
        raise KeyError("Table")

    opened = catalogs(tmp_path)
    monkeypatch.setattr(opened.get(None), "load_table", fail_to_parse)
    table = load_settings(write_config(tmp_path), os.environ).tables[0]
    with pytest.raises(
        Transient, match=r"lab\.world: the catalog's response cannot be parsed \(KeyError: 'Table'\)"
    ):
        opened.load_mirror(table)


def test_number_of_retries_is_passed_to_botocore_as_a_number(tmp_path: Path) -> None:
    glue = '{type: glue, glue.region: eu-west-1, glue.max-retries: "3", glue.access-key-id: a, '
    catalog = catalogs_with(tmp_path, glue + 'glue.secret-access-key: b, warehouse: "s3://w"}').get(None)
    assert catalog.properties["glue.max-retries"] == 3


@pytest.mark.parametrize(
    "catalog",
    [
        '{type: rest, uri: "http://127.0.0.1:9"}',
        '{type: sql, uri: "sqlite:////nowhere/at/all/catalog.db", warehouse: "file:///nowhere"}',
    ],
)
def test_unreachable_catalog_is_transient(tmp_path: Path, catalog: str) -> None:
    opened = catalogs_with(tmp_path, catalog)
    table = load_settings(tmp_path / "other.yaml", os.environ).tables[0]
    with pytest.raises(Transient):
        opened.load_changelog(table)


def test_discard_continues_after_a_failed_delete(tmp_path: Path) -> None:
    kept, deleted = tmp_path / "kept", tmp_path / "deleted"
    kept.write_text("")
    deleted.write_text("")

    class Refusing(PyArrowFileIO):
        def delete(self, location: object) -> None:
            if str(location).endswith("kept"):
                raise PermissionError("no")
            super().delete(str(location))

    discard(Refusing(), [str(tmp_path / "absent"), str(kept), str(deleted)])
    assert kept.exists()
    assert not deleted.exists()
