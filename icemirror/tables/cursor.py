"""The cursor: how far a mirror has merged its changelog. Stored as JSON in every commit."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, SerializerFunctionWrapHandler, model_serializer


class Truncation(BaseModel):
    """A truncation of the source, as a position in the order of events: all earlier events have no effect.

    `columns`: field ids of the sequence columns; `sequence`: their values, encoded as the index orders them.
    `commit`, `file`, `row`: changelog commit, index of the file in it, row.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    columns: tuple[int, ...]
    sequence: tuple[int, ...]
    commit: int
    file: int
    row: int

    @property
    def order(self) -> tuple[int, ...]:
        """Sort key: the later truncation is greater."""
        return (*self.sequence, self.commit, self.file, self.row)


class CursorSource(BaseModel):
    """The last merged changelog snapshot: all of it, or its first `files_done` files.

    `truncated`: the last truncation that was applied. It is left out of the JSON if there is none.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    uuid: str
    snapshot_id: int
    sequence_number: int
    files_done: int | None = None
    truncated: Truncation | None = None

    @model_serializer(mode="wrap")
    def _omit_absent_truncation(
        self, write: SerializerFunctionWrapHandler
    ) -> dict[str, Any]:  # Any: the types of the fields
        document: dict[str, Any] = write(self)
        if self.truncated is None:
            document.pop("truncated", None)
        return document


class Cursor(BaseModel):
    """One source per changelog of the mirror (today: one); none before the first merge."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    version: Literal[1] = 1
    sources: tuple[CursorSource, ...]

    @property
    def source(self) -> CursorSource:
        """The only changelog of this mirror."""
        (source,) = self.sources
        return source

    def with_truncation(self, truncation: Truncation) -> Cursor:
        """Return the same cursor with this as the last applied truncation."""
        return Cursor(sources=(self.source.model_copy(update={"truncated": truncation}),))
