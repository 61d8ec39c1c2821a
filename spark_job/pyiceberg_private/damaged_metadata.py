"""Raises a specific error for a damaged metadata file. PyIceberg's error names neither the file nor the table.

Upstream: apache/iceberg-python#1328.
"""

from __future__ import annotations

import gzip
import zlib
from functools import cache

from pydantic import ValidationError
from pyiceberg import exceptions as iceberg
from pyiceberg.io import InputFile
from pyiceberg.serializers import FromInputFile
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.typedef import UTF8

from icemirror.errors import Corrupt, Transient
from spark_job.storage.translate_errors import describe_validation_error, is_unknown_type_error

_read_with_pyiceberg = FromInputFile.table_metadata
# Truncated, empty, not UTF-8, not JSON, not table metadata; the last three are errors of decompression.
_UNREADABLE = (iceberg.ValidationError, UnicodeError, EOFError, gzip.BadGzipFile, zlib.error)


class DamagedMetadata(Corrupt):
    """A table's metadata file is damaged. The caller, which knows the table, puts its name before the message."""


@cache
def install() -> None:
    """Patch PyIceberg for all catalogs of this process that store metadata in files."""
    FromInputFile.table_metadata = staticmethod(read_metadata)  # type: ignore[method-assign]


def read_metadata(input_file: InputFile, encoding: str = UTF8) -> TableMetadata:
    """Return metadata as PyIceberg does. If it cannot be parsed, read again: storage may have returned a part."""
    try:
        return _read_with_pyiceberg(input_file, encoding)
    except _UNREADABLE as error:
        if is_unknown_type_error(error):
            raise
    try:
        return _read_with_pyiceberg(input_file, encoding)
    except _UNREADABLE as error:
        raise _translate(input_file, error) from None  # PyIceberg's error contains the file's content


def _translate(input_file: InputFile, error: Exception) -> Corrupt | Transient:
    path = input_file.location
    with input_file.open() as stream:
        bytes_read, size = len(stream.read()), len(input_file)
    if bytes_read < size:
        return Transient(f"storage returned {bytes_read} of {size} bytes of a metadata file: {path}")
    return DamagedMetadata(
        f"the metadata file is damaged: {_describe(error, size)}. Restore the file, or set the catalog's pointer to "
        f"the previous one. The file: {path}"
    )


def _describe(error: Exception, size: int) -> str:
    if size == 0:
        return "it is empty"
    match error:
        case UnicodeError():
            return "it is not UTF-8"
        case EOFError() | gzip.BadGzipFile() | zlib.error():
            return "it cannot be decompressed"
        case _ if isinstance(error.__cause__, ValidationError):
            return f"{describe_validation_error(error.__cause__)} ({size} bytes)"
        case _:
            return f"it does not describe a table ({size} bytes)"
