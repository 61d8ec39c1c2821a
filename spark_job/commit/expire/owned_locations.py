"""The locations that a mirror owns. Files elsewhere may belong to other tables and are never deleted."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote

from pyiceberg.table.metadata import TableMetadata

from spark_job.index.location import index_location

METADATA_PATH = "write.metadata.path"
_LOCATION_PROPERTIES = (
    "write.data.path",
    METADATA_PATH,
    "write.object-storage.path",
    "write.folder-storage.path",
)
_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*):(.*)", re.DOTALL)
_SCHEME_ALIASES = {"s3a": "s3", "s3n": "s3", "abfss": "abfs", "wasbs": "wasb", "gcs": "gs"}


@dataclass(frozen=True, slots=True)
class OwnedLocations:
    """The locations of a table's files and of its index."""

    files: tuple[str, ...]
    index: tuple[str, ...]

    @classmethod
    def from_metadata(cls, metadata: TableMetadata, index_path: str) -> OwnedLocations:
        """Return the table's location, those in its properties, and the configured and default index location."""
        return cls(
            files=(
                metadata.location,
                *(location for location in configured_locations(metadata) if not _has_dot_segments(location)),
            ),
            index=(index_path, index_location(metadata, None)),
        )

    def has_file(self, path: str) -> bool:
        """Return whether the table owns a file that its metadata lists."""
        return any(is_below(path, location) for location in self.files)

    def has_index(self, path: str) -> bool:
        """Return whether the table owns a root or segment."""
        return any(is_below(path, location) for location in self.index)


def configured_locations(metadata: TableMetadata) -> list[str]:
    """Return the locations in the table's properties."""
    locations = (metadata.properties.get(name, "").rstrip("/") for name in _LOCATION_PROPERTIES)
    return list(dict.fromkeys(location for location in locations if location))


def is_below(path: str, location: str) -> bool:
    """Return whether a path is below a location, in any spelling of scheme and slashes; `..` never is."""
    path, prefix = _normalize(path), f"{_normalize(location).rstrip('/')}/"
    return path.startswith(prefix) and not _has_dot_segments(path.removeprefix(prefix))


def _has_dot_segments(path: str) -> bool:
    return not {".", ".."}.isdisjoint(unquote(path).split("/"))


def _normalize(path: str) -> str:
    match = _SCHEME.fullmatch(path)
    scheme, location = (match[1].lower(), match[2]) if match else ("file", path)
    if scheme == "file":  # file:/a, file:///a and /a//a are the same
        location = re.sub("/+", "/", location)
    return f"{_SCHEME_ALIASES.get(scheme, scheme)}:{location}"
