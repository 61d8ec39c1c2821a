"""Lists the files stored below a location, through the file system of the table's FileIO."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pyarrow.fs import FileSelector, FileType
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import PyArrowFileIO

from icemirror.errors import Invalid
from spark_job.pyiceberg_private.vended_credentials import VendedIO

# Names of the modification time in fsspec: local and Google's, Amazon's, Azure's, others.
_MODIFIED = ("mtime", "LastModified", "last_modified", "updated", "created")


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file as storage lists it. `path` starts with the given location, so the FileIO can delete it."""

    path: str
    bytes: int
    modified_at: float | None


def list_files(io: FileIO, location: str) -> Iterator[StoredFile]:
    """Yield every file below a location, at any depth; none if the location does not exist."""
    location = location.rstrip("/")
    if isinstance(io, VendedIO):
        io = io.current()
    if isinstance(io, PyArrowFileIO):
        return _list_pyarrow(io, location)
    if hasattr(io, "get_fs"):
        return _list_fsspec(io, location)
    raise Invalid(f"{type(io).__name__} cannot list files: {location}")


def _list_pyarrow(io: PyArrowFileIO, location: str) -> Iterator[StoredFile]:
    scheme, netloc, root = io.parse_location(location, io.properties)
    files = io.fs_by_scheme(scheme, netloc).get_file_info(
        FileSelector(root, recursive=True, allow_not_found=True)
    )
    for info in files:
        if info.type is FileType.File:
            modified = info.mtime.timestamp() if info.mtime is not None else None
            yield StoredFile(_with_location(location, root, info.path), info.size or 0, modified)


def _list_fsspec(io: Any, location: str) -> Iterator[StoredFile]:  # noqa: ANN401 (fsspec has no types)
    scheme, _, path_with_host = location.partition("://")
    authority = path_with_host.partition("/")[0].rpartition("@")[2] or None
    fs = io.get_fs(scheme if path_with_host else "file", authority)
    root = str(fs._strip_protocol(location))
    try:
        info_by_path: Mapping[str, Mapping[str, Any]] = fs.find(root, detail=True)
    except FileNotFoundError:
        return
    for path, info in info_by_path.items():
        modified = next((info[name] for name in _MODIFIED if info.get(name) is not None), None)
        yield StoredFile(
            _with_location(location, root, path), int(info.get("size") or 0), _to_timestamp(modified)
        )


def _with_location(location: str, root: str, path: str) -> str:
    """Return a listed path with the location instead of its root in the file system."""
    root, path = root.strip("/"), path.strip("/")
    if not path.startswith(f"{root}/"):
        raise Invalid(f"storage lists {path}, which is outside of the requested location: {location}")
    return f"{location}{path[len(root) :]}"


def _to_timestamp(modified: object) -> float | None:
    """Return a time in seconds since 1970; None if it cannot be parsed."""
    match modified:
        case datetime():
            return (modified if modified.tzinfo else modified.replace(tzinfo=UTC)).timestamp()
        case str():
            try:
                return _to_timestamp(datetime.fromisoformat(modified))
            except ValueError:
                return None
        case int() | float():
            return float(modified)
        case _:
            return None
