"""How far a mirror has merged its changelog; stored as JSON in every commit."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict


class Source(BaseModel):
    """The last changelog snapshot that is merged: whole, or its first `files_done` files."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    uuid: str
    snapshot_id: int
    sequence_number: int
    files_done: int | None = None


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
