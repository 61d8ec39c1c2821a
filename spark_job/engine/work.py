"""The input of an engine: files to read, and what to do with each key range."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from pyiceberg.io import FileIO

from spark_job.changelog.event_batch import EventBatch
from spark_job.changelog.shape import ChangelogShape
from spark_job.index.key_codec import KeyCodec


class WorkFile(Protocol):
    """A file that work reads: a file of the changelog or of the mirror."""

    @property
    def path(self) -> str:
        """Its path."""

    @property
    def bytes(self) -> int:
        """Its size, or an estimate of what is read from it."""

    @property
    def row_count(self) -> int:
        """The number of its rows; 0 if it is unknown."""


@dataclass(frozen=True)
class MirrorWorkFile:
    """A data file or segment of the mirror. `bytes`: an estimate of what is read from it."""

    path: str
    bytes: int
    row_count: int


class ShardOutput(Protocol):
    """The result of one shard."""

    @property
    def paths(self) -> Sequence[str]:
        """The paths of all files that the shard wrote."""


Result = TypeVar("Result", bound=ShardOutput, covariant=True)


class Work(Protocol[Result]):
    """The input of Spark tasks: files to read, and what to do with the events of each key range. It is pickled."""

    @property
    def files(self) -> Sequence[WorkFile]:
        """The files to read, divided among the shards."""

    @property
    def shared_files(self) -> Sequence[WorkFile]:
        """Files that every shard reads completely, in addition."""

    @property
    def codec(self) -> KeyCodec:
        """The encoding of keys."""

    def key_source(self, file: WorkFile) -> tuple[FileIO, tuple[int, ...]]:
        """Return the storage of a file, and the field ids of its key columns."""

    @property
    def output_io(self) -> FileIO:
        """The storage to which shards write, and in which the files of failed shards are deleted."""

    def read(self, ordinals: range) -> EventBatch:
        """Return the events of some files, without their rows."""

    def limit_shards(self, shards: int) -> int:
        """Return `shards`, or fewer where each shard would write many small files."""

    def run_shard(self, read: Callable[[], EventBatch]) -> Result:
        """Return the result of one key range, whose events `read` returns. Deletes its files if it fails."""


def run_in_one_shard(work: Work[Result]) -> Result:
    """Return the result of running all keys as one shard."""
    return work.run_shard(lambda: work.read(range(len(work.files))))


class KeyOnlyWork:
    """Base of work that writes no data files and has no shared files."""

    io: FileIO
    shape: ChangelogShape

    @property
    def shared_files(self) -> tuple[WorkFile, ...]:
        """Empty: no file is read by every shard."""
        return ()

    @property
    def codec(self) -> KeyCodec:
        """The encoding of keys."""
        return self.shape.key_codec

    @property
    def output_io(self) -> FileIO:
        """The storage to which segments are written, if any."""
        return self.io

    def limit_shards(self, shards: int) -> int:
        """Return `shards`, since few files are written."""
        return shards
