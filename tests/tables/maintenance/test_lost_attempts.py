"""An attempt that fails or loses leaves no file behind, whichever of its writes was the last."""

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
    """The nth file of the mirror that is written is cut short; several may be written at a time."""
    create = PyArrowFile.create
    numbers = count(1)

    def cut_short(file: PyArrowFile, overwrite: bool = False) -> Any:
        if "world_changelog" in file.location:
            return create(file, overwrite)
        number = next(numbers)
        stream = create(file, overwrite)
        if number == nth:
            with stream:
                stream.write(b"half")
            raise OSError(errno.ENOSPC, "No space left on device")
        return stream

    monkeypatch.setattr(PyArrowFile, "create", cut_short)


@pytest.fixture(params=["v2, one shard", "v2, two shards", "v3, two shards"])
def started(request: pytest.FixtureRequest, tmp_path: Path) -> Lab:
    """A mirror of some merges, and changes that wait; the next merge merges runs of the index too."""
    version, shards = request.param.split(", ")
    engine = InProcessEngine(2 if shards == "two shards" else 1)
    lab = Lab.make(tmp_path, options=f"format_version: {version[1]}", engine=engine)
    for number in range(1, 8):
        lab.commit_events(" ".join(f"U{key}@{number}" for key in range(number, number + 4)))
        lab.merge()
    lab.commit_events("U2@50 U9@50 D3@50 I70@50")
    return lab


def test_whichever_write_fails_nothing_is_left(started: Lab) -> None:
    before = started.files_on_disk()
    kinds: list[Kind | None] = []
    for nth in range(1, 40):
        with pytest.MonkeyPatch.context() as monkeypatch:
            fail_at(monkeypatch, nth)
            result = started.try_merge()
        kinds.append(result.error.kind if result.error else None)
        if kinds[-1] is not Kind.TRANSIENT:
            break
        assert started.files_on_disk() == before, f"after write {nth}"
    assert kinds[-1] is Kind.COMMIT_UNKNOWN, "the last is the catalog's own"
    assert len(kinds) > 6
    assert before < started.files_on_disk(), "an unknown outcome keeps all"


def test_a_lost_race_leaves_nothing(started: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """The faster attempt did the same work; only its files are left."""
    other, own = started.reconfigure(), set[str]()
    before, commit = started.files_on_disk(), SqlCatalog.commit_table

    def be_late(*arguments: Any) -> object:
        monkeypatch.undo()
        own.update(started.files_on_disk() - before)
        other.merge()
        return commit(*arguments)

    monkeypatch.setattr(SqlCatalog, "commit_table", be_late)
    assert started.merge().outcome == "up-to-date"
    assert own
    assert not own & started.files_on_disk()


def test_refusal_of_unknown_cause_keeps_all_files(started: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    before = started.files_on_disk()

    def refuse(*_: object) -> object:
        raise CommitFailedException("the head moved")

    monkeypatch.setattr(SqlCatalog, "commit_table", refuse)
    result = started.try_merge()
    assert result.error is not None
    assert result.error.kind is Kind.CONFLICT
    assert before < started.files_on_disk()
