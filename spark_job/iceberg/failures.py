"""Turns what catalogs, storage and Arrow raise into the product's named errors."""

from __future__ import annotations

import errno
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
from pydantic import ValidationError
from pyiceberg import exceptions as iceberg

from icemirror.errors import Corrupt, IcemirrorError, Invalid, Transient, fill_in

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
)
_FULL = (errno.ENOSPC, errno.EDQUOT)
_MOST_TEXT = 300
_MAY_NOT = (errno.EACCES, errno.EPERM, errno.EROFS)
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
        case OSError() if error.errno in _FULL:
            return Transient(
                f"{lead}the disk is full: {error}. Free some space; the merge goes on by itself."
            )
        case OSError() if error.errno in _MAY_NOT:
            return Invalid(
                f"{lead}no permission: {error}. Let the user that runs icemirror read and write there."
            )
        case pa.ArrowInvalid() | pa.ArrowNotImplementedError():
            # Not Arrow's own words: they may hold values of rows.
            return Corrupt(f"{lead}a file holds what its table does not allow ({type(error).__name__})")
        case OSError():
            return Transient(f"{lead}storage or network failed: {error}")
        case _ if any(base.__module__ in _RETRY_MODULES for base in type(error).__mro__):
            return Transient(f"{lead}catalog or storage cannot be reached: {error}")
        case _:
            return None
