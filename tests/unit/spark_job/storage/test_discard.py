"""Files without a commit are deleted; files of a commit that may have happened stay."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import PyArrowFileIO

from icemirror.errors import CommitUnknown, Conflict, Corrupt, UnverifiedConflict
from spark_job.storage.discard import discard_on_error, discard_unless_committed

Collect = Callable[[FileIO, list[str]], AbstractContextManager[list[str]]]

ANY_END = [Conflict("moved"), Corrupt("wrong"), OSError("full"), KeyboardInterrupt()]
IN_DOUBT = [CommitUnknown("no answer"), UnverifiedConflict("refused"), KeyboardInterrupt()]


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    files = [tmp_path / name for name in ("before", "inside")]
    for file in files:
        file.touch()
    return files


def _end(collect: Collect, files: list[Path], end: BaseException) -> None:
    with collect(PyArrowFileIO(), [str(files[0])]) as written:
        written.append(str(files[1]))
        raise end


def test_what_was_written_stays_where_all_went_well(files: list[Path]) -> None:
    for collect in (discard_on_error, discard_unless_committed):
        with collect(PyArrowFileIO(), [str(files[0])]) as written:
            written.append(str(files[1]))
    assert all(file.exists() for file in files)


@pytest.mark.parametrize(
    "end", [*ANY_END, CommitUnknown("of the rejects"), UnverifiedConflict("of the rejects")]
)
def test_before_its_commit_whatever_ends_an_attempt_removes_its_files(
    files: list[Path], end: BaseException
) -> None:
    with pytest.raises(type(end)):
        _end(discard_on_error, files, end)
    assert not any(file.exists() for file in files)


@pytest.mark.parametrize("end", ANY_END[:-1])
def test_a_commit_that_did_not_happen_leaves_no_file(files: list[Path], end: Exception) -> None:
    with pytest.raises(type(end)):
        _end(discard_unless_committed, files, end)
    assert not any(file.exists() for file in files)


@pytest.mark.parametrize("end", IN_DOUBT)
def test_a_commit_that_may_have_happened_keeps_every_file(files: list[Path], end: BaseException) -> None:
    with pytest.raises(type(end)):
        _end(discard_unless_committed, files, end)
    assert all(file.exists() for file in files)
