"""What all reports have in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class ReportModel(BaseModel):
    """Base of all reports that `--json` prints."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class UnreadableFile(ReportModel):
    """A file that is missing or damaged."""

    path: str
    what: str


def without_path(message: str, path: str) -> str:
    """Return an error message without the path of the file, which a report shows separately."""
    return message.removeprefix(f"{path}: ").removesuffix(f": {path}")
