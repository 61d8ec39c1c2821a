"""How far a mirror has merged its changelog; stored as JSON in every commit."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, SerializerFunctionWrapHandler, model_serializer


class Truncation(BaseModel):
    """A truncation of the source by its place in the order of events: none before it counts.

    `columns`: the field ids of the sequence columns, whose values are `sequence` as the index orders them; then the
    number of the changelog's commit, the place of the file in it, and the row.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    columns: tuple[int, ...]
    sequence: tuple[int, ...]
    commit: int
    file: int
    row: int

    @property
    def order(self) -> tuple[int, ...]:
        """By which one of two truncations is the later."""
        return (*self.sequence, self.commit, self.file, self.row)


class Source(BaseModel):
    """The last changelog snapshot that is merged: whole, or its first `files_done` files.

    `truncated`: the last truncation that was followed; a cursor without one is written as before there were any.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    uuid: str
    snapshot_id: int
    sequence_number: int
    files_done: int | None = None
    truncated: Truncation | None = None

    @model_serializer(mode="wrap")
    def _as_before(
        self, write: SerializerFunctionWrapHandler
    ) -> dict[str, Any]:  # Any: of the type of the field
        told: dict[str, Any] = write(self)
        if self.truncated is None:
            told.pop("truncated", None)
        return told


class Cursor(BaseModel):
    """One source for each changelog that the mirror follows (today: one); none before anything is merged."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    version: Literal[1] = 1
    sources: tuple[Source, ...]

    @property
    def source(self) -> Source:
        """The one changelog of this mirror."""
        (source,) = self.sources
        return source

    def truncated_at(self, truncation: Truncation) -> Cursor:
        """The same place, with this as the last truncation that was followed."""
        return Cursor(sources=(self.source.model_copy(update={"truncated": truncation}),))
