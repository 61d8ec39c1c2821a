"""The input of an engine: files to read, and what to do with each key range."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from pyiceberg.io import FileIO

from spark_job.changelog.added_files import ChangelogFile
from spark_job.changelog.event_batch import EventBatch
from spark_job.changelog.shape import ChangelogShape
from spark_job.index.key_codec import KeyCodec


class ShardOutput(Protocol):
    """The result of one shard."""

    @property
    def paths(self) -> Sequence[str]:
        """The paths of all files that the shard wrote."""


Result = TypeVar("Result", bound=ShardOutput, covariant=True)


class Work(Protocol[Result]):
    """The input of Spark tasks: files to read, and what to do with the events of each key range. It is pickled."""

    @property
    def files(self) -> Sequence[ChangelogFile]:
        """The files to read, divided among the shards."""

    @property
    def shared_files(self) -> Sequence[ChangelogFile]:
        """Files that every shard reads completely, in addition."""

    @property
    def codec(self) -> KeyCodec:
        """The encoding of keys."""

    def key_source(self, file: ChangelogFile) -> tuple[FileIO, tuple[int, ...]]:
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
    def shared_files(self) -> tuple[ChangelogFile, ...]:
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
