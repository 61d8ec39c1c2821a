"""A user who may alter a table chooses neither code to run nor a host that receives the catalog's credentials."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from spark_job.commit import row_delta
from spark_job.pyiceberg_private.open_catalog import open_catalog
from spark_job.pyiceberg_private.untrusted_properties import LOCATION_PROVIDER
from tests.lab.lab import Lab

_MODULE = """
import pathlib
here = pathlib.Path(__file__).parent
(here / "imported").touch()
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table.locations import SimpleLocationProvider
"""


@pytest.fixture
def foreign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file that exists once the module `foreign_code` was imported."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "foreign_code.py").write_text(_MODULE)
    monkeypatch.syspath_prepend(str(folder))
    yield folder / "imported"
    sys.modules.pop("foreign_code", None)


def set_property(table: Table, name: str, value: str) -> None:
    """Set it like another engine, which ignores the property."""
    path = Path(table.refresh().metadata_location.removeprefix("file://"))
    metadata = json.loads(path.read_text())
    metadata["properties"][name] = value
    path.write_text(json.dumps(metadata))


@pytest.mark.parametrize("whose", ["changelog", "mirror"])
def test_no_table_names_the_code_that_reads_its_files(tmp_path: Path, foreign: Path, whose: str) -> None:
    lab = Lab.make(tmp_path)
    lab.commit_events("I1@1=a")
    lab.merge()
    lab.commit_events("U1@2=b")
    set_property(
        lab.changelog if whose == "changelog" else lab.mirror, "py-io-impl", "foreign_code.PyArrowFileIO"
    )
    lab.reconfigure().merge()
    assert lab.rows() == {1: "b"}
    assert not foreign.exists()


def test_no_table_says_where_the_credentials_of_its_catalog_go(tmp_path: Path) -> None:
    lab = Lab.make(tmp_path)
    lab.commit_events("I1@1=a")
    lab.merge()
    for table in (lab.changelog, lab.mirror):
        set_property(table, "gcs.service.host", "http://elsewhere")
    catalogs = lab.reconfigure().pipeline.catalogs
    for found in (catalogs.load_changelog(lab.table), catalogs.load_mirror(lab.table)):
        assert found is not None
        assert found.metadata.properties["gcs.service.host"] == "http://elsewhere"
        assert "gcs.service.host" not in found.io.properties
        assert found.io.properties["warehouse"]


def test_a_mirror_that_names_code_for_its_places_is_refused(tmp_path: Path, foreign: Path) -> None:
    lab = Lab.make(tmp_path)
    lab.commit_events("I1@1=a")
    lab.merge()
    set_property(lab.mirror, LOCATION_PROVIDER, "foreign_code.SimpleLocationProvider")
    lab.commit_events("U1@2=b")
    error = lab.reconfigure().try_merge().error
    assert error is not None
    assert error.kind == "invalid"
    assert LOCATION_PROVIDER in error.message
    assert "under table_properties" in error.message
    assert not foreign.exists()


def test_code_for_its_places_that_the_configuration_names_is_used(tmp_path: Path, foreign: Path) -> None:
    options = f"table_properties: {{{LOCATION_PROVIDER}: foreign_code.SimpleLocationProvider}}"
    lab = Lab.make(tmp_path, options=options)
    lab.commit_events("I1@1=a")
    lab.merge()
    lab.commit_events("U1@2=b")
    lab.reconfigure(options).merge()
    assert lab.rows() == {1: "b"}
    assert foreign.exists()


def test_code_that_a_table_names_during_a_merge_does_not_run(
    tmp_path: Path, foreign: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab.make(tmp_path)
    lab.commit_events("I1@1=a")
    lab.merge()
    lab.commit_events("U1@2=b")
    commit = row_delta.RowDelta.commit

    def late(delta: row_delta.RowDelta) -> object:
        set_property(lab.mirror, LOCATION_PROVIDER, "foreign_code.SimpleLocationProvider")
        return commit(delta)

    monkeypatch.setattr(row_delta.RowDelta, "commit", late)
    error = lab.try_merge().error
    assert error is not None
    assert error.kind == "invalid"
    assert not foreign.exists()


def test_a_location_provider_of_the_changelog_is_ignored(tmp_path: Path, foreign: Path) -> None:
    lab = Lab.make(tmp_path)
    lab.commit_events("I1@1=a")
    set_property(lab.changelog, LOCATION_PROVIDER, "foreign_code.SimpleLocationProvider")
    lab.reconfigure().merge()
    assert not foreign.exists()


@pytest.fixture
def rest(tmp_path: Path) -> Iterator[Catalog]:
    """A REST catalog with one table, whose properties contradict those of the catalog."""
    lab = Lab.make(tmp_path)
    metadata = json.loads(lab.changelog.metadata.model_dump_json())
    metadata["properties"] = {"py-io-impl": "foreign_code.PyArrowFileIO", "s3.endpoint": "http://elsewhere"}
    answer = {
        "metadata-location": lab.changelog.metadata_location,
        "metadata": metadata,
        "config": {"s3.region": "here"},
        "storage-credentials": [{"prefix": "file:", "config": {"s3.session-token": "lent"}}],
    }

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known = {"defaults": {}, "overrides": {}} if "/config" in self.path else answer
            body = json.dumps(known).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Not in the output of the tests."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    catalog = open_catalog("rest", {"type": "rest", "uri": f"http://127.0.0.1:{server.server_port}"})
    yield catalog
    catalog.close()
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_rest_catalog_is_followed_and_its_table_is_not(rest: Catalog, foreign: Path) -> None:
    table = rest.load_table("lab.world_changelog")
    assert table.metadata.properties["s3.endpoint"] == "http://elsewhere"
    assert "s3.endpoint" not in table.io.properties
    assert table.io.properties["s3.region"] == "here"
    assert table.io.properties["s3.session-token"] == "lent"
    assert not foreign.exists()
