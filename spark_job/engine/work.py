"""What an engine can run: events read from files without their rows, merged by key range."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from pyiceberg.io import FileIO

from spark_job.changelog.changes import Changes
from spark_job.changelog.history import ChangelogFile
from spark_job.changelog.shape import ChangelogShape
from spark_job.index.key_codec import KeyCodec


class ShardOutput(Protocol):
    """What one shard produces."""

    @property
    def paths(self) -> list[str]:
        """Every file that the shard wrote."""


Result = TypeVar("Result", bound=ShardOutput, covariant=True)


class Work(Protocol[Result]):
    """The input of a task; pickled."""

    @property
    def files(self) -> Sequence[ChangelogFile]:
        """The files to read, divided among the shards."""

    @property
    def shared_files(self) -> Sequence[ChangelogFile]:
        """Files that every shard reads completely, in addition."""

    @property
    def codec(self) -> KeyCodec:
        """The encoding of keys."""

    def source(self, file: ChangelogFile) -> tuple[FileIO, tuple[int, ...]]:
        """Return the storage of a file, and the field ids of its key columns."""

    @property
    def target(self) -> FileIO:
        """The storage to which shards write, and in which the files of failed shards are deleted."""

    def read(self, ordinals: range) -> Changes:
        """Return the events of some files, without their rows."""

    def limit_shards(self, wanted: int) -> int:
        """Return `wanted`, or fewer shards where each would write many small files."""

    def merge(self, read: Callable[[], Changes]) -> Result:
        """Merge the events of one key range, which `read` returns. Deletes its files if it fails."""


class KeyOnlyWork:
    """Base of work that writes no data files and has no shared files."""

    io: FileIO
    shape: ChangelogShape

    @property
    def shared_files(self) -> tuple[ChangelogFile, ...]:
        """There are none."""
        return ()

    @property
    def codec(self) -> KeyCodec:
        """The encoding of keys."""
        return self.shape.codec

    @property
    def target(self) -> FileIO:
        """The storage to which segments are written, if any."""
        return self.io

    def limit_shards(self, wanted: int) -> int:
        """Return `wanted`, since few files are written."""
        return wanted
