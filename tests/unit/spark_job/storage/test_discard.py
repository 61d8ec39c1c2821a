"""Files without a commit are deleted; files of a commit that may have succeeded are kept."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import PyArrowFileIO

from icemirror.errors import CommitUnknown, Conflict, Corrupt, UnverifiedConflict
from spark_job.storage.discard import discard_on_error, discard_unless_committed

Discard = Callable[[FileIO, list[str]], AbstractContextManager[list[str]]]

ERRORS = [Conflict("moved"), Corrupt("wrong"), OSError("full"), KeyboardInterrupt()]
UNKNOWN_OUTCOMES = [CommitUnknown("no answer"), UnverifiedConflict("refused"), KeyboardInterrupt()]


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    files = [tmp_path / name for name in ("before", "inside")]
    for file in files:
        file.touch()
    return files


def _fail_in(discard: Discard, files: list[Path], error: BaseException) -> None:
    with discard(PyArrowFileIO(), [str(files[0])]) as written:
        written.append(str(files[1]))
        raise error


def test_files_are_kept_after_success(files: list[Path]) -> None:
    for discard in (discard_on_error, discard_unless_committed):
        with discard(PyArrowFileIO(), [str(files[0])]) as written:
            written.append(str(files[1]))
    assert all(file.exists() for file in files)


@pytest.mark.parametrize(
    "error", [*ERRORS, CommitUnknown("of the rejects"), UnverifiedConflict("of the rejects")]
)
def test_any_error_before_the_commit_deletes_the_files(files: list[Path], error: BaseException) -> None:
    with pytest.raises(type(error)):
        _fail_in(discard_on_error, files, error)
    assert not any(file.exists() for file in files)


@pytest.mark.parametrize("error", ERRORS[:-1])
def test_failed_commit_leaves_no_file(files: list[Path], error: Exception) -> None:
    with pytest.raises(type(error)):
        _fail_in(discard_unless_committed, files, error)
    assert not any(file.exists() for file in files)


@pytest.mark.parametrize("error", UNKNOWN_OUTCOMES)
def test_commit_that_may_have_succeeded_keeps_every_file(files: list[Path], error: BaseException) -> None:
    with pytest.raises(type(error)):
        _fail_in(discard_unless_committed, files, error)
    assert all(file.exists() for file in files)
