from __future__ import annotations

import time
from pathlib import Path
from typing import cast

import pytest
from pyarrow.fs import FileSystem
from pyiceberg.io import FileIO
from pyiceberg.io.fsspec import FsspecFileIO
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table import Table

from spark_job.maintenance.list_files import list_files
from spark_job.pyiceberg_private import vended_credentials
from spark_job.pyiceberg_private.vended_credentials import VendedIO, has_vended_credentials, renew_at


@pytest.mark.parametrize(
    ("config", "vended"),
    [
        ({}, False),
        ({"s3.endpoint": "http://store"}, False),
        ({"s3.session-token": "t"}, True),
        ({"gcs.oauth2.token": "t"}, True),
        ({"adls.sas-token.account.dfs.core.windows.net": "t"}, True),
    ],
)
def test_credentials_in_the_configuration_of_a_table_are_vended(config: dict[str, str], vended: bool) -> None:
    assert has_vended_credentials(config) is vended


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"s3.session-token-expires-at-ms": "1000000"}, 940.0),
        ({"s3.session-token-expires-at-ms": "110000"}, 105.0),
        ({"adls.sas-token-expires-at-ms.account": "500000", "gcs.oauth2.token-expires-at": "400000"}, 340.0),
        ({"s3.session-token-expires-at-ms": "50000"}, 100.0),
        ({"s3.session-token": "t"}, 400.0),
    ],
    ids=["a minute before", "half of a short lifetime", "the earliest", "already expired", "no expiry"],
)
def test_credentials_are_renewed_before_they_expire(config: dict[str, str], expected: float) -> None:
    assert renew_at(config, now=100.0) == pytest.approx(expected)


class _Table:
    """A table of a catalog that vends credentials."""

    def __init__(self, io: FileIO, *, expires_at: float) -> None:
        self.io = io
        self.config = {
            "s3.session-token": "t",
            "s3.session-token-expires-at-ms": str(int(expires_at * 1000)),
        }

    def name(self) -> tuple[str, ...]:
        return ("lab", "world")


def vended_io(io: FileIO, *, expires_at: float) -> VendedIO:
    return VendedIO("lake", {}, cast("Table", _Table(io, expires_at=expires_at)))


@pytest.mark.parametrize("kind", [PyArrowFileIO, FsspecFileIO])
def test_files_are_listed_with_vended_credentials(tmp_path: Path, kind: type[FileIO]) -> None:
    (tmp_path / "one.parquet").write_bytes(b"four")
    (found,) = list_files(vended_io(kind({}), expires_at=time.time() + 3600), f"file://{tmp_path}")
    assert (found.path, found.bytes) == (f"file://{tmp_path}/one.parquet", 4)


def test_credentials_are_renewed_before_files_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class ExpiredFileIO(PyArrowFileIO):
        def fs_by_scheme(self, scheme: str, netloc: str | None) -> FileSystem:
            raise OSError("AWS Error ACCESS_DENIED: expired")

    class Catalog:
        def load_table(self, identifier: object) -> _Table:
            return _Table(PyArrowFileIO({}), expires_at=time.time() + 3600)

    monkeypatch.setattr(vended_credentials, "open_catalog", lambda name, properties: Catalog())
    (tmp_path / "one.parquet").write_bytes(b"four")
    (found,) = list_files(vended_io(ExpiredFileIO({}), expires_at=time.time() - 1), f"file://{tmp_path}")
    assert found.bytes == 4
