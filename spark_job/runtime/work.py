"""What the engine can run: something read from files as key tuples, and merged by key range."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from pyiceberg.io import FileIO

from spark_job.changelog.change_file import ChangeFile
from spark_job.changelog.changes import Changes
from spark_job.changelog.shape import ChangelogShape
from spark_job.key_index.codec import KeyCodec


class Done(Protocol):
    """What one shard made."""

    @property
    def paths(self) -> list[str]:
        """Every file that it wrote."""


Result = TypeVar("Result", bound=Done, covariant=True)


class Work(Protocol[Result]):
    """All that a task needs to know; sent to the tasks."""

    @property
    def files(self) -> Sequence[ChangeFile]:
        """What is read."""

    @property
    def background(self) -> Sequence[ChangeFile]:
        """What every shard reads all of, beside its own."""

    @property
    def codec(self) -> KeyCodec:
        """How keys are encoded."""

    def source(self, file: ChangeFile) -> tuple[FileIO, tuple[int, ...]]:
        """Where the file is, and the field ids of the key in it."""

    @property
    def target(self) -> FileIO:
        """Where shards write, and where the files of failed ones are removed."""

    def read(self, ordinals: range) -> Changes:
        """The key tuples of some files."""

    def most_shards(self, wanted: int) -> int:
        """As many shards as wanted, or fewer where each would write many small files."""

    def merge(self, read: Callable[[], Changes]) -> Result:
        """Merges what `read` gives: everything about a range of keys. Leaves no files behind when it fails."""


class NarrowWork:
    """What is the same in all work that writes no data files, and reads nothing beside its own."""

    io: FileIO
    shape: ChangelogShape

    @property
    def background(self) -> tuple[ChangeFile, ...]:
        """Nothing."""
        return ()

    @property
    def codec(self) -> KeyCodec:
        """How keys are encoded."""
        return self.shape.codec

    @property
    def target(self) -> FileIO:
        """Where segments are written, if any."""
        return self.io

    def most_shards(self, wanted: int) -> int:
        """As many as wanted."""
        return wanted
