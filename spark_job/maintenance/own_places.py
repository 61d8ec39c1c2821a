"""Where the files of a mirror lie. What its metadata names elsewhere may be somebody else's, and is never deleted."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote

from pyiceberg.table.metadata import TableMetadata

from spark_job.key_index.index_location import index_location

METADATA_PATH = "write.metadata.path"
_NAMED = ("write.data.path", METADATA_PATH, "write.object-storage.path", "write.folder-storage.path")
_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*):(.*)", re.DOTALL)
_ALIKE = {"s3a": "s3", "s3n": "s3", "abfss": "abfs", "wasbs": "wasb", "gcs": "gs"}


@dataclass(frozen=True, slots=True)
class OwnPlaces:
    """The places of a table's files, and those of its index."""

    files: tuple[str, ...]
    index: tuple[str, ...]

    @classmethod
    def of(cls, metadata: TableMetadata, index_place: str) -> OwnPlaces:
        """Its location, where its properties put files, and the index where it is and where it is by default."""
        return cls(
            files=(metadata.location, *(place for place in named_places(metadata) if not _leads_up(place))),
            index=(index_place, index_location(metadata, None)),
        )

    def has_file(self, path: str) -> bool:
        """Whether a file that the table's metadata names is its own."""
        return any(is_below(path, place) for place in self.files)

    def has_index(self, path: str) -> bool:
        """Whether a root or segment is this table's."""
        return any(is_below(path, place) for place in self.index)


def named_places(metadata: TableMetadata) -> list[str]:
    """The places that properties of the table name."""
    named = (metadata.properties.get(name, "").rstrip("/") for name in _NAMED)
    return list(dict.fromkeys(place for place in named if place))


def is_below(path: str, place: str) -> bool:
    """Whether a path lies in a place, however scheme and slashes are written; one that leads up again does not."""
    path, place = _spelled_alike(path), f"{_spelled_alike(place).rstrip('/')}/"
    return path.startswith(place) and not _leads_up(path.removeprefix(place))


def _leads_up(path: str) -> bool:
    return not {".", ".."}.isdisjoint(unquote(path).split("/"))


def _spelled_alike(path: str) -> str:
    found = _SCHEME.fullmatch(path)
    scheme, rest = (found[1].lower(), found[2]) if found else ("file", path)
    if scheme == "file":  # file:/a, file:///a and /a//a are written for the same
        rest = re.sub("/+", "/", rest)
    return f"{_ALIKE.get(scheme, scheme)}:{rest}"
