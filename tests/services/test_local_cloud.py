"""The lake of localstack-compose.yml on a real REST catalog and storage, mirrored with its configuration."""

from __future__ import annotations

import importlib.util
from types import ModuleType

import pytest

from icemirror.cli.main import run
from icemirror.telemetry.redaction import forget_secrets
from tests.infra.local_cloud import FOLDER, environment
from tests.services.rest_catalog import RestCatalog
from tests.services.s3proxy import REGION, S3Proxy


@pytest.fixture
def lake() -> ModuleType:
    spec = importlib.util.spec_from_file_location("local_cloud_lake", FOLDER / "lake.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_local_cloud_lake_is_mirrored(
    rest: RestCatalog, s3: S3Proxy, lake: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    properties = s3.properties()
    environ = {
        **environment("icemirror"),
        "CATALOG_URI": rest.uri,
        "AWS_ENDPOINT": properties["s3.endpoint"],
        "AWS_ACCESS_KEY_ID": properties["s3.access-key-id"],
        "AWS_SECRET_ACCESS_KEY": properties["s3.secret-access-key"],
        "AWS_REGION": REGION,
    }
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("ICEMIRROR_CONFIG", str(FOLDER / "icemirror.yaml"))
    catalog = lake.open_catalog(environ)
    lake.commit_changes(catalog)
    assert lake.read_mirror(catalog) == {}
    assert run(["merge"]) == 0
    assert lake.read_mirror(catalog) == lake.EXPECTED
    forget_secrets()
