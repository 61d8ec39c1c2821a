"""Turns what catalogs, storage and Arrow raise into the product's named errors."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
from pydantic import ValidationError
from pyiceberg import exceptions as iceberg

from icemirror.errors import Corrupt, IcemirrorError, Invalid, Transient, fill_in
from spark_job.iceberg.forbidden import is_forbidden, is_full, is_no_database, own_words

# Whose errors say that something could not be reached, or did not answer; by the module of any of their bases.
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
    "thrift.Thrift",  # and all that a Hive Metastore declares
)
_MISCONFIGURED = (
    ("sqlalchemy.exc", "ArgumentError"),
    ("botocore.exceptions", "InvalidRegionError"),
    ("botocore.exceptions", "NoRegionError"),
    ("botocore.exceptions", "PartialCredentialsError"),
    ("botocore.exceptions", "ProfileNotFound"),
    ("hive_metastore.ttypes", "InvalidObjectException"),
)
_MOST_TEXT = 300
# As PyIceberg puts it, of a column and of what lists and maps hold.
_UNKNOWN_TYPE = re.compile(r"(?:Unsupported field type: '|Type not recognized: )(\w{1,40})")


@contextmanager
def named(what: str = "") -> Iterator[None]:
    """Names the errors of a step; `what` (a table, say) leads the message."""
    try:
        yield
    except IcemirrorError:
        raise
    except Exception as error:
        known = name_error(error, f"{what}: " if what else "")
        if known is None:
            raise
        raise known from error


@contextmanager
def named_for(table: str) -> Iterator[None]:
    """The same for a step of one table, which is also named in the commands that a message tells."""
    try:
        with named(table):
            yield
    except IcemirrorError as error:
        fill_in(error, table)
        raise


@contextmanager
def answered(what: str) -> Iterator[None]:
    """Names what a catalog's client raises when the answer is not whole: botocore takes half of one for an answer."""
    try:
        yield
    except (ValidationError, iceberg.ValidationError) as error:
        # Without the cause: pydantic repeats what it was given, and catalogs lend credentials.
        if unknown := _UNKNOWN_TYPE.search(str(error)):
            raise Invalid(
                f"{what}: has, or once had, a column of type {unknown[1]}, which this version cannot read. Make the "
                "table anew without it."
            ) from None
        if not isinstance(error, ValidationError):
            raise
        raise Transient(f"{what}: the catalog's answer cannot be read ({problems(error)})") from None
    except (KeyError, TypeError, json.JSONDecodeError) as error:
        text = str(error)[:_MOST_TEXT]
        raise Transient(
            f"{what}: the catalog's answer cannot be read ({type(error).__name__}: {text})"
        ) from error


def is_of_unknown_type(error: Exception) -> bool:
    """Whether PyIceberg cannot read a table's metadata because of the type of a column."""
    return _UNKNOWN_TYPE.search(str(error)) is not None


def problems(error: ValidationError) -> str:
    """What pydantic found, without what it was given."""
    found = error.errors(include_input=False, include_context=False, include_url=False)
    places = (".".join(map(str, one["loc"])) for one in found)
    told = (
        f"{place}: {one['msg']}" if place else one["msg"] for place, one in zip(places, found, strict=True)
    )
    return f"{error.title}: {'; '.join(told)}"[:_MOST_TEXT]


def name_error(error: Exception, lead: str) -> IcemirrorError | None:
    """The named error for a foreign one, or None where it means a defect of ours."""
    match error:
        case iceberg.NoSuchTableError() | iceberg.NoSuchNamespaceError():
            return Invalid(f"{lead}{error}. Check the name and the catalog in the configuration.")
        case iceberg.NoSuchPropertyException():  # of Glue and Hive, which keep others beside them
            return Invalid(f"{lead}it is no Iceberg table: {error}. Correct the name in the configuration.")
        case iceberg.UnauthorizedError() | iceberg.ForbiddenError():
            return Invalid(f"{lead}the catalog refused the credentials: {error}")
        case iceberg.BadRequestError():
            return Invalid(
                f"{lead}the catalog does not take the request: {error}. Check the catalog's configuration."
            )
        case iceberg.RESTError() | iceberg.CommitStateUnknownException() | iceberg.CommitFailedException():
            return Transient(f"{lead}the catalog could not answer: {error}")
        case MemoryError():
            return Transient(f"{lead}there was not enough memory")
        case FileNotFoundError():
            return Corrupt(f"{lead}a file that the table names is gone: {error}")
        case OSError() if is_full(error):
            return _full(error, lead)
        case OSError() if is_forbidden(error):
            return Invalid(
                f"{lead}no permission: {error}. Let the user that runs icemirror read and write there."
            )
        case pa.ArrowInvalid() | pa.ArrowNotImplementedError():
            # Not Arrow's own words: they may hold values of rows.
            return Corrupt(f"{lead}a file holds what its table does not allow ({type(error).__name__})")
        case OSError():
            return Transient(f"{lead}storage or network failed: {error}")
        case _ if any(base.__module__ in _RETRY_MODULES for base in type(error).__mro__):
            return _of_service(error, lead)
        case _:
            return None


def _full(error: Exception, lead: str) -> Transient:
    return Transient(
        f"{lead}the disk is full: {own_words(error)}. Free some space; the merge goes on by itself."
    )


def _of_service(error: Exception, lead: str) -> IcemirrorError:
    """For what the client of a catalog or a store raised."""
    words = own_words(error)
    if is_full(error):
        return _full(error, lead)
    if is_no_database(error):
        return Invalid(
            f"{lead}the file of the catalog is damaged, or no SQLite file: {words}. Restore it, or correct the "
            "catalog's uri."
        )
    if is_forbidden(error):
        return Invalid(
            f"{lead}the catalog, or storage, may not be opened or written: {words}. Let the user that runs "
            "icemirror read and write there; for a SQLite file, its folder as well."
        )
    if any((base.__module__, base.__name__) in _MISCONFIGURED for base in type(error).__mro__):
        return Invalid(
            f"{lead}it cannot be opened as it is configured: {words}. Correct the catalog's properties."
        )
    return Transient(f"{lead}catalog or storage cannot be reached: {words}")
