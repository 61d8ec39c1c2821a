"""A catalog or a warehouse that may not be written needs a person; nothing is committed and nothing is left."""

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
    """As for a file, or a folder, that this user may only read."""
    catalog = lab.catalog
    assert isinstance(catalog, SqlCatalog)
    catalog.engine.dispose()
    event.listen(
        catalog.engine, "connect", lambda connection, _: connection.execute("PRAGMA query_only = ON")
    )


@pytest.mark.parametrize("merged", [False, True])
def test_a_read_only_catalog_needs_a_person(tmp_path: Path, merged: bool) -> None:
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
    left = {path for path in lab.files_on_disk() - files if not path.endswith(".metadata.json")}
    assert left == set()


@pytest.mark.parametrize("code", [errno.EACCES, errno.EROFS])
@pytest.mark.parametrize("what", [".parquet", ".metadata.json", ".avro"])
def test_a_read_only_warehouse_needs_a_person(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, code: int
) -> None:
    lab = Lab.make(tmp_path)
    lab.commit_events("I1@1")
    lab.merge()
    lab.commit_events("U1@2")
    files = lab.files_on_disk()
    create = PyArrowFile.create

    def refuse(file: PyArrowFile, *rest: Any, **named: Any) -> Any:
        if file.location.endswith(what):
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


def test_a_full_disk_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab.make(tmp_path)
    lab.commit_events("I1@1")

    def refuse(file: PyArrowFile, *_: Any, **__: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device", file.location)

    monkeypatch.setattr(PyArrowFile, "create", refuse)
    error = lab.try_merge().error
    assert error is not None
    assert exit_for_kind(error.kind) == Exit.RETRY_LATER


def test_a_file_that_is_no_catalog_needs_a_person(tmp_path: Path) -> None:
    lab = Lab.make(tmp_path)
    (tmp_path / "catalog.db").write_text("this is no database, but long enough to be looked at as one" * 20)
    error = lab.reconfigure().try_merge().error
    assert error is not None
    assert error.kind is Kind.INVALID, error.message
    assert "not a SQLite file" in error.message
