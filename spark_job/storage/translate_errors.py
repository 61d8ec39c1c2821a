"""Translates errors of catalogs, storage and Arrow into the error classes of icemirror."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
from pydantic import ValidationError
from pyiceberg import exceptions as iceberg

from icemirror.errors import Corrupt, IcemirrorError, Invalid, Transient, insert_table_name
from spark_job.storage.classify_errors import error_text, is_damaged_database, is_disk_full, is_forbidden

# An error class from one of these modules, or derived from one, means: unreachable or no response.
_RETRY_MODULES = (
    "sqlalchemy.exc",
    "requests.exceptions",
    "urllib3.exceptions",
    "botocore.exceptions",
    "azure.core.exceptions",
    "aiohttp.client_exceptions",
    "google.api_core.exceptions",
    "google.auth.exceptions",
    "fsspec.exceptions",
    "thrift.Thrift",  # also the base of all exceptions that a Hive Metastore declares
)
_MISCONFIGURED = (
    ("sqlalchemy.exc", "ArgumentError"),
    ("botocore.exceptions", "InvalidRegionError"),
    ("botocore.exceptions", "NoRegionError"),
    ("botocore.exceptions", "PartialCredentialsError"),
    ("botocore.exceptions", "ProfileNotFound"),
    ("hive_metastore.ttypes", "InvalidObjectException"),
)
_MAX_TEXT = 300
_CONNECTION = re.compile(r"host='([^']+)', port=(\d+)\)")
_ERRNO = re.compile(r"\[Errno -?\d+\] ([^'\")>]+)")
# PyIceberg's messages for the type of a column, and for the type of list elements and map values.
_UNKNOWN_TYPE = re.compile(r"(?:Unsupported field type: '|Type not recognized: )(\w{1,40})")


@contextmanager
def translate_errors(subject: str = "") -> Iterator[None]:
    """Translate the errors of a block. The message begins with `subject`, for example a table's name."""
    try:
        yield
    except IcemirrorError:
        raise
    except Exception as error:
        translated = translate_error(error, f"{subject}: " if subject else "")
        if translated is None:
            raise
        raise translated from error


@contextmanager
def translate_table_errors(table: str) -> Iterator[None]:
    """Translate the errors of a block about one table, and insert the table into the commands that messages suggest."""
    try:
        with translate_errors(table):
            yield
    except IcemirrorError as error:
        insert_table_name(error, table)
        raise


@contextmanager
def catalog_response_errors(subject: str) -> Iterator[None]:
    """Translate what a catalog's client raises on an incomplete response: botocore accepts a truncated one."""
    try:
        yield
    except (ValidationError, iceberg.ValidationError) as error:
        # Without the cause: pydantic repeats its input, and catalogs vend credentials.
        if unknown_type := _UNKNOWN_TYPE.search(str(error)):
            raise Invalid(
                f"{subject}: has, or once had, a column of type {unknown_type[1]}, which this version cannot read. "
                "Recreate the table without it."
            ) from None
        if not isinstance(error, ValidationError):
            raise
        raise Transient(
            f"{subject}: the catalog's response cannot be parsed ({describe_validation_error(error)})"
        ) from None
    except (KeyError, TypeError, json.JSONDecodeError) as error:
        text = str(error)[:_MAX_TEXT]
        raise Transient(
            f"{subject}: the catalog's response cannot be parsed ({type(error).__name__}: {text})"
        ) from error


def is_unknown_type_error(error: Exception) -> bool:
    """Return whether PyIceberg cannot read a table's metadata because of a column's type."""
    return _UNKNOWN_TYPE.search(str(error)) is not None


def describe_validation_error(error: ValidationError) -> str:
    """Return the problems that pydantic found, without the input: it may contain credentials."""
    problems = error.errors(include_input=False, include_context=False, include_url=False)
    fields = (".".join(map(str, problem["loc"])) for problem in problems)
    texts = (
        f"{field}: {problem['msg']}" if field else problem["msg"]
        for field, problem in zip(fields, problems, strict=True)
    )
    return f"{error.title}: {'; '.join(texts)}"[:_MAX_TEXT]


def translate_error(error: Exception, prefix: str) -> IcemirrorError | None:
    """Return icemirror's error for an error of a library, or None if the error means a defect in icemirror."""
    match error:
        case iceberg.NoSuchTableError() | iceberg.NoSuchNamespaceError():
            return Invalid(f"{prefix}{error}. Check the name and the catalog in the configuration.")
        case iceberg.NoSuchPropertyException():  # Glue and Hive also list tables of other formats
            return Invalid(f"{prefix}not an Iceberg table: {error}. Correct the name in the configuration.")
        case iceberg.UnauthorizedError() | iceberg.ForbiddenError():
            return Invalid(f"{prefix}the catalog refused the credentials: {error}")
        case iceberg.BadRequestError():
            return Invalid(
                f"{prefix}the catalog rejected the request: {error}. Check the catalog's configuration."
            )
        case iceberg.RESTError() | iceberg.CommitStateUnknownException() | iceberg.CommitFailedException():
            return Transient(f"{prefix}the catalog could not answer: {error}")
        case MemoryError():
            return Transient(f"{prefix}out of memory")
        case FileNotFoundError():
            return Corrupt(f"{prefix}a file that the table references is missing: {error}")
        case OSError() if is_disk_full(error):
            return _disk_full(error, prefix)
        case OSError() if is_forbidden(error):
            return Invalid(
                f"{prefix}no permission: {error}. Let the user that runs icemirror read and write there."
            )
        case pa.ArrowInvalid() | pa.ArrowNotImplementedError():
            # Without Arrow's message: it may contain values of rows.
            return Corrupt(f"{prefix}a file contains what its table does not allow ({type(error).__name__})")
        case OSError():
            return _unreachable(str(error), prefix, fallback_text="storage or network failed")
        case _ if any(base.__module__ in _RETRY_MODULES for base in type(error).__mro__):
            return _translate_client_error(error, prefix)
        case _:
            return None


def _disk_full(error: Exception, prefix: str) -> Transient:
    return Transient(
        f"{prefix}the disk is full: {error_text(error)}. Free some space; the next merge continues."
    )


def _translate_client_error(error: Exception, prefix: str) -> IcemirrorError:
    """Translate an error of a catalog's or a store's client."""
    text = error_text(error)
    if is_disk_full(error):
        return _disk_full(error, prefix)
    if is_damaged_database(error):
        return Invalid(
            f"{prefix}the catalog's file is damaged, or not a SQLite file: {text}. Restore it, or correct the "
            "catalog's uri."
        )
    if is_forbidden(error):
        return Invalid(
            f"{prefix}no permission to open or write the catalog or storage: {text}. Let the user that runs "
            "icemirror read and write there; for a SQLite file, also in its folder."
        )
    if any((base.__module__, base.__name__) in _MISCONFIGURED for base in type(error).__mro__):
        return Invalid(
            f"{prefix}the catalog cannot be opened with this configuration: {text.rstrip('.')}. Correct the catalog's "
            "properties."
        )
    return _unreachable(text, prefix, fallback_text="catalog or storage cannot be reached")


def _unreachable(text: str, prefix: str, *, fallback_text: str) -> Transient:
    """Return an error with host and reason from the message of an HTTP client; else with the whole message."""
    connection, reasons = _CONNECTION.search(text), _ERRNO.findall(text)
    if connection is None or not reasons:
        return Transient(f"{prefix}{fallback_text}: {text}")
    return Transient(
        f"{prefix}catalog or storage cannot be reached: {connection[1]}:{connection[2]}: {reasons[-1].strip()}. "
        "Check its address and the network."
    )
