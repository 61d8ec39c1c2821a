"""A failed or conflicting attempt leaves no files, at any of its writes."""

from __future__ import annotations

import errno
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.io.pyarrow import PyArrowFile

from icemirror.errors import Kind
from spark_job.engine.engine import InProcessEngine
from tests.lab.lab import Lab


def fail_at(monkeypatch: pytest.MonkeyPatch, nth: int) -> None:
    """Cut the nth written file of the mirror short; files may be written concurrently."""
    create = PyArrowFile.create
    numbers = count(1)

    def create_or_fail(file: PyArrowFile, overwrite: bool = False) -> Any:
        if "world_changelog" in file.location:
            return create(file, overwrite)
        number = next(numbers)
        stream = create(file, overwrite)
        if number == nth:
            with stream:
                stream.write(b"half")
            raise OSError(errno.ENOSPC, "No space left on device")
        return stream

    monkeypatch.setattr(PyArrowFile, "create", create_or_fail)


@pytest.fixture(params=["v2, one shard", "v2, two shards", "v3, two shards"])
def merged(request: pytest.FixtureRequest, tmp_path: Path) -> Lab:
    """A mirror after some merges, with waiting events; the next merge also merges runs of the index."""
    version, shards = request.param.split(", ")
    engine = InProcessEngine(2 if shards == "two shards" else 1)
    lab = Lab.make(tmp_path, options=f"format_version: {version[1]}", engine=engine)
    for number in range(1, 8):
        lab.commit_events(" ".join(f"U{key}@{number}" for key in range(number, number + 4)))
        lab.merge()
    lab.commit_events("U2@50 U9@50 D3@50 I70@50")
    return lab


def test_any_failed_write_leaves_no_files(merged: Lab) -> None:
    before = merged.files_on_disk()
    kinds: list[Kind | None] = []
    for nth in range(1, 40):
        with pytest.MonkeyPatch.context() as monkeypatch:
            fail_at(monkeypatch, nth)
            result = merged.try_merge()
        kinds.append(result.error.kind if result.error else None)
        if kinds[-1] is not Kind.TRANSIENT:
            break
        assert merged.files_on_disk() == before, f"after write {nth}"
    assert kinds[-1] is Kind.COMMIT_UNKNOWN, "the last write is the catalog's"
    assert len(kinds) > 6
    assert before < merged.files_on_disk(), "an unknown outcome keeps all files"


def test_conflicting_attempt_leaves_no_files(merged: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another attempt committed the same work first; only its files stay."""
    other_job, own_files = merged.reconfigure(), set[str]()
    before, commit = merged.files_on_disk(), SqlCatalog.commit_table

    def commit_second(*arguments: Any) -> object:
        monkeypatch.undo()
        own_files.update(merged.files_on_disk() - before)
        other_job.merge()
        return commit(*arguments)

    monkeypatch.setattr(SqlCatalog, "commit_table", commit_second)
    assert merged.merge().outcome == "up-to-date"
    assert own_files
    assert not own_files & merged.files_on_disk()


def test_refused_commit_with_unknown_cause_keeps_all_files(
    merged: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = merged.files_on_disk()

    def refuse(*_: object) -> object:
        raise CommitFailedException("the head moved")

    monkeypatch.setattr(SqlCatalog, "commit_table", refuse)
    result = merged.try_merge()
    assert result.error is not None
    assert result.error.kind is Kind.CONFLICT
    assert before < merged.files_on_disk()
