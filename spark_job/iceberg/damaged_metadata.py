"""Names a table's metadata file that cannot be read as such: PyIceberg tells neither the file nor the table."""

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
from spark_job.iceberg.failures import is_of_unknown_type, problems

_read = FromInputFile.table_metadata
# Cut, empty, not UTF-8, not JSON, not the metadata of a table; the others of what is compressed.
_UNREADABLE = (iceberg.ValidationError, UnicodeError, EOFError, gzip.BadGzipFile, zlib.error)


class DamagedMetadata(Corrupt):
    """The message begins with the file; whoever knows the table puts it first."""


@cache
def install() -> None:
    """For all catalogs of this process that keep tables' metadata in files."""
    FromInputFile.table_metadata = staticmethod(read_metadata)  # type: ignore[method-assign]


def read_metadata(input_file: InputFile, encoding: str = UTF8) -> TableMetadata:
    """As PyIceberg does it. What cannot be read is read once more: storage may have broken off."""
    try:
        return _read(input_file, encoding)
    except _UNREADABLE as error:
        if is_of_unknown_type(error):
            raise
    try:
        return _read(input_file, encoding)
    except _UNREADABLE as error:
        raise _named(input_file, error) from None  # (PyIceberg repeats the file)


def _named(input_file: InputFile, error: Exception) -> Corrupt | Transient:
    place = input_file.location
    with input_file.open() as stream:
        read, whole = len(stream.read()), len(input_file)
    if read < whole:
        return Transient(f"{place}: storage gave {read} of {whole} bytes of a metadata file")
    return DamagedMetadata(
        f"the metadata file {place} is damaged: {_found(error, whole)}. Restore the file, or let the catalog name "
        "the one before it."
    )


def _found(error: Exception, whole: int) -> str:
    if whole == 0:
        return "it is empty"
    match error:
        case UnicodeError():
            return "it is not UTF-8"
        case EOFError() | gzip.BadGzipFile() | zlib.error():
            return "it cannot be decompressed"
        case _ if isinstance(error.__cause__, ValidationError):
            return f"{problems(error.__cause__)} ({whole} bytes)"
        case _:
            return f"it does not describe a table ({whole} bytes)"
