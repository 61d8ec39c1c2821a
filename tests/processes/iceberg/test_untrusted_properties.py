"""Table properties choose neither code to run nor a host that receives the catalog's credentials."""

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
def import_marker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file that exists once the module `foreign_code` was imported."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "foreign_code.py").write_text(_MODULE)
    monkeypatch.syspath_prepend(str(folder))
    yield folder / "imported"
    sys.modules.pop("foreign_code", None)


def set_property(table: Table, name: str, value: str) -> None:
    """Set a property like another engine, without its effect on this process."""
    path = Path(table.refresh().metadata_location.removeprefix("file://"))
    metadata = json.loads(path.read_text())
    metadata["properties"][name] = value
    path.write_text(json.dumps(metadata))


@pytest.mark.parametrize("table_name", ["changelog", "mirror"])
def test_table_property_does_not_choose_the_file_io_code(
    tmp_path: Path, import_marker: Path, table_name: str
) -> None:
    lab = Lab.make(tmp_path)
    lab.commit_events("I1@1=a")
    lab.merge()
    lab.commit_events("U1@2=b")
    set_property(
        lab.changelog if table_name == "changelog" else lab.mirror, "py-io-impl", "foreign_code.PyArrowFileIO"
    )
    lab.reconfigure().merge()
    assert lab.rows() == {1: "b"}
    assert not import_marker.exists()


def test_table_property_does_not_redirect_the_catalog_credentials(tmp_path: Path) -> None:
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


def test_location_provider_in_a_mirror_property_is_refused(tmp_path: Path, import_marker: Path) -> None:
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
    assert not import_marker.exists()


def test_location_provider_in_the_configuration_is_used(tmp_path: Path, import_marker: Path) -> None:
    options = f"table_properties: {{{LOCATION_PROVIDER}: foreign_code.SimpleLocationProvider}}"
    lab = Lab.make(tmp_path, options=options)
    lab.commit_events("I1@1=a")
    lab.merge()
    lab.commit_events("U1@2=b")
    lab.reconfigure(options).merge()
    assert lab.rows() == {1: "b"}
    assert import_marker.exists()


def test_location_provider_set_during_a_merge_is_refused(
    tmp_path: Path, import_marker: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab.make(tmp_path)
    lab.commit_events("I1@1=a")
    lab.merge()
    lab.commit_events("U1@2=b")
    commit = row_delta.RowDelta.commit

    def commit_after_change(delta: row_delta.RowDelta) -> object:
        set_property(lab.mirror, LOCATION_PROVIDER, "foreign_code.SimpleLocationProvider")
        return commit(delta)

    monkeypatch.setattr(row_delta.RowDelta, "commit", commit_after_change)
    error = lab.try_merge().error
    assert error is not None
    assert error.kind == "invalid"
    assert not import_marker.exists()


def test_location_provider_of_the_changelog_is_ignored(tmp_path: Path, import_marker: Path) -> None:
    lab = Lab.make(tmp_path)
    lab.commit_events("I1@1=a")
    set_property(lab.changelog, LOCATION_PROVIDER, "foreign_code.SimpleLocationProvider")
    lab.reconfigure().merge()
    assert not import_marker.exists()


@pytest.fixture
def rest(tmp_path: Path) -> Iterator[Catalog]:
    """A REST catalog with one table, whose properties contradict those of the catalog."""
    lab = Lab.make(tmp_path)
    metadata = json.loads(lab.changelog.metadata.model_dump_json())
    metadata["properties"] = {"py-io-impl": "foreign_code.PyArrowFileIO", "s3.endpoint": "http://elsewhere"}
    table_response = {
        "metadata-location": lab.changelog.metadata_location,
        "metadata": metadata,
        "config": {"s3.region": "here"},
        "storage-credentials": [{"prefix": "file:", "config": {"s3.session-token": "lent"}}],
    }

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            response = {"defaults": {}, "overrides": {}} if "/config" in self.path else table_response
            body = json.dumps(response).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    catalog = open_catalog("rest", {"type": "rest", "uri": f"http://127.0.0.1:{server.server_port}"})
    yield catalog
    catalog.close()
    server.shutdown()
    server.server_close()
    thread.join()


def test_properties_of_a_rest_catalog_are_used_and_those_of_its_table_are_not(
    rest: Catalog, import_marker: Path
) -> None:
    table = rest.load_table("lab.world_changelog")
    assert table.metadata.properties["s3.endpoint"] == "http://elsewhere"
    assert "s3.endpoint" not in table.io.properties
    assert table.io.properties["s3.region"] == "here"
    assert table.io.properties["s3.session-token"] == "lent"
    assert not import_marker.exists()
