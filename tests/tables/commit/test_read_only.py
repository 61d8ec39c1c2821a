"""A read-only catalog or warehouse blocks the table; nothing is committed and no file is left."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import PyArrowFile
from sqlalchemy import event

from icemirror.errors import Exit, Kind, exit_for_kind
from tests.lab.lab import Lab


def forbid_writing(lab: Lab) -> None:
    """Make the catalog read-only, like a file or folder without write permission."""
    catalog = lab.catalog
    assert isinstance(catalog, SqlCatalog)
    catalog.engine.dispose()
    event.listen(
        catalog.engine, "connect", lambda connection, _: connection.execute("PRAGMA query_only = ON")
    )


@pytest.mark.parametrize("merged", [False, True])
def test_read_only_catalog_blocks_the_table(tmp_path: Path, merged: bool) -> None:
    lab = Lab.make(tmp_path)
    lab.commit_events("I1@1")
    if merged:
        lab.merge()
        lab.commit_events("U1@2")
    files = lab.files_on_disk()
    forbid_writing(lab)
    error = lab.try_merge().error
    assert error is not None
    assert (error.kind, exit_for_kind(error.kind)) == (Kind.INVALID, Exit.BLOCKED), error.message
    assert error.message.startswith("lab.world: ")
    assert "attempt to write a readonly database" in error.message
    assert "Let the user that runs icemirror read and write there" in error.message
    assert "INSERT" not in error.message
    assert "UPDATE" not in error.message
    leftover = {path for path in lab.files_on_disk() - files if not path.endswith(".metadata.json")}
    assert leftover == set()


@pytest.mark.parametrize("code", [errno.EACCES, errno.EROFS])
@pytest.mark.parametrize("suffix", [".parquet", ".metadata.json", ".avro"])
def test_read_only_warehouse_blocks_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, code: int
) -> None:
    lab = Lab.make(tmp_path)
    lab.commit_events("I1@1")
    lab.merge()
    lab.commit_events("U1@2")
    files = lab.files_on_disk()
    create = PyArrowFile.create

    def refuse(file: PyArrowFile, *rest: Any, **named: Any) -> Any:
        if file.location.endswith(suffix):
            raise OSError(code, "may not", file.location)
        return create(file, *rest, **named)

    monkeypatch.setattr(PyArrowFile, "create", refuse)
    error = lab.try_merge().error
    assert error is not None
    assert error.kind is Kind.INVALID, error.message
    assert "no permission" in error.message
    assert lab.files_on_disk() == files
    monkeypatch.undo()
    assert lab.merge().live_rows == 1


def test_full_disk_is_retried_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab.make(tmp_path)
    lab.commit_events("I1@1")

    def refuse(file: PyArrowFile, *_: Any, **__: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device", file.location)

    monkeypatch.setattr(PyArrowFile, "create", refuse)
    error = lab.try_merge().error
    assert error is not None
    assert exit_for_kind(error.kind) == Exit.RETRY_LATER


def test_catalog_file_that_is_no_database_blocks_the_table(tmp_path: Path) -> None:
    lab = Lab.make(tmp_path)
    (tmp_path / "catalog.db").write_text("this is no database, but long enough to be looked at as one" * 20)
    error = lab.reconfigure().try_merge().error
    assert error is not None
    assert error.kind is Kind.INVALID, error.message
    assert "not a SQLite file" in error.message
